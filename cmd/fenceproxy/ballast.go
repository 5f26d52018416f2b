package main

// newBallast is memory that nobody touches, so that it costs address space and
// no RAM. The garbage collector runs each time the heap has doubled, and that
// of a proxy is so small that it would run several times a second: the ballast
// counts as heap, and spares a tenth of the CPU under load. It adds this much
// garbage at the most. The caller keeps it alive.
func newBallast() []byte { return make([]byte, 32<<20) }
