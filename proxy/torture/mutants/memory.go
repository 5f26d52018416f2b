package main

// memoryStore are the mutants of the store in memory.
func memoryStore() []mutant {
	return []mutant{
		{name: "H-memory", rule: "6: a record in memory may go down", edits: recordsFall,
			pkg: "./tokenstore/memory", test: "TestStore/a lower token is stale and changes nothing"},
	}
}
