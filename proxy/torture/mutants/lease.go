package main

const (
	leasePkg    = "./proxy/lease"
	leaseState  = "proxy/lease/state.go"
	secureFile  = "proxy/lease/secure.go"
	drawFile    = "proxy/lease/acquire.go"
	leaseStore  = "proxy/lease/store.go"
	renewalFile = "proxy/lease/hold.go"
	leaseQueue  = "proxy/lease/entry.go"
	offerFile   = "proxy/lease/handover.go"
)

// leases are the mutants of the issuer.
func leases() []mutant {
	return []mutant{
		one("lease-seen", "a lease of another proxy is taken for old when it is first seen",
			leaseState, "s.from, s.until, s.pinned = now, now+l.TTL,", "s.from, s.until, s.pinned = now, now,",
			leasePkg, "TestStop"),
		one("lease-beat", "a renewal at another proxy does not make a lease younger",
			leaseState, "case known.Same(l), s.sole && l.ID == known.ID:", "case l.ID == known.ID:",
			leasePkg, "TestTheDrainIsNotInTheTime"),
		one("lease-beat-late", "a beat that is found in the store late makes its holder's time begin anew",
			leaseState, "		s.until = now + l.TTL\n	default:", "		s.from, s.until = now, now+l.TTL\n	default:",
			leasePkg, "TestABeatThatIsFoundLater"),
		one("lease-late", "a lease is renewed behind its end",
			leaseState, "s.lease.ID == id && !s.pinned && s.held(now)", "s.lease.ID == id && !s.pinned",
			leasePkg, "TestIssuerIsTheModel"),
		one("lease-pin", "a lease runs out while its drain goes on",
			leaseState, "(s.pinned || now < s.until)", "(now < s.until)",
			leasePkg, "TestTheDrainIsNotInTheTime"),
		one("lease-time", "the time of the drain is in the lease's",
			secureFile, "\t\ta.e.extend(now)\n", "",
			leasePkg, "TestTheDrainIsNotInTheTime"),
		one("lease-taken", "a lease is told that another issuer has taken",
			secureFile, "if !a.e.pinned || a.e.lease.ID != a.id {", "if false {",
			leasePkg, "TestTakenDuringTheDrain"),
		one("lease-left", "a lease is told to a client that has left",
			secureFile, "\tif ctx.Err() != nil {\n\t\treturn Held{}, ErrLeft\n\t}\n", "",
			leasePkg, "TestAGrantThatIsNotTold"),
		one("lease-abandoned", "a lease that is not told is left to run out",
			drawFile, "\t\ti.abandon(a)\n", "",
			leasePkg, "TestTokensAreUsedUp"),
		one("lease-unknown", "a grant without a result is believed in when it comes late",
			leaseStore, "\t\t\te.giveUp(next, i.o.Clock())\n", "",
			leasePkg, "TestUnknownResults"),
		one("lease-ttl", "a new TTL is not looked up that the store may not have",
			renewalFile, "\tcase e.unsure:\n\t\treturn h, false, nil\n", "",
			leasePkg, "TestUnknownTTL"),
		one("lease-queue", "a waiter whose turn fails does not hand it on",
			leaseQueue, "\tif at == 0 {\n\t\te.wake()\n\t}\n", "",
			leasePkg, "TestAFailureIsHandedOn"),
		one("lease-offer", "a release is answered while nobody has taken the lease and it still stands in the store",
			offerFile, "return e.lease.ID != was.ID", "return was.ID != \"\"",
			leasePkg, "TestAnOfferThatIsNotTaken"),
		one("lease-offered", "a holder waits for ever for one who was to take his lease and has left",
			leaseQueue, "\tif len(e.queue) == 0 {\n\t\te.hasTried()\n\t}\n", "",
			leasePkg, "TestAnOfferThatIsNotTaken"),
		one("lease-short", "a renewed lease runs out when half of its time is over",
			leaseState, "extend(now time.Duration) { s.from, s.until = now, now+s.lease.TTL }", "extend(now time.Duration) { s.from, s.until = now, now+s.lease.TTL/2 }",
			leasePkg, "TestIssuerIsTheModel"),
		one("lease-undrained", "a grant is told before its token is raised and older writes are over",
			secureFile, "return a.owner.Fence(ctx, a.Key, l.Token)", "return nil",
			leasePkg, "TestTheDrainIsNotInTheTime"),
		one("lease-counter", "the counter of tokens is not kept",
			"tokenstore/embedded/batch.go", "granted: leases.counter()}", "granted: 0}",
			"./tokenstore/embedded", "TestLeasesCrashAtEachStep"),
	}
}
