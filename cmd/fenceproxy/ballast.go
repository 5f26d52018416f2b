package main

// ballast is memory that nobody touches, so that it costs address space and no
// RAM. The garbage collector runs each time the heap has doubled, and that of a
// proxy is so small that it would run several times a second: the ballast
// counts as heap, and spares a tenth of the CPU under load. In a process with
// many clients it adds this much garbage at the most.
var ballast []byte

const ballastSize = 32 << 20

func carryBallast() { ballast = make([]byte, ballastSize) }
