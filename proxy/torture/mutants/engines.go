package main

// engines are the mutants of R2 in the stores that proxies share: of what each
// decides and tells in its one transaction.
func engines() []mutant {
	const (
		etcdAcquire = "tokenstore/etcd/acquire.go"
		etcdEntries = "tokenstore/etcd/entries.go"
		redisScript = "tokenstore/redis/lua/acquire.lua"
		schemaFile  = "tokenstore/postgres/schema.sql"

		older = "TestBackend/older entries of all sessions are told, newer and equal ones are not"
		stale = "TestBackend/a stale one of several leaves nothing"
		gone  = "TestBackend/a session that is gone acquires nothing"
	)
	etcd := func(name, rule, file, old, new, test string) mutant {
		return one("etcd-"+name, rule, file, old, new, "./tokenstore/etcd", test)
	}
	redis := func(name, rule, old, new, test string) mutant {
		return one("redis-"+name, rule, redisScript, old, new, "./tokenstore/redis", test)
	}
	postgres := func(name, rule, old, new, test string) mutant {
		return one("postgres-"+name, rule, schemaFile, old, new, "./tokenstore/postgres", test)
	}
	return []mutant{
		etcd("older", "R2: older entries are not told",
			etcdEntries, "!w.Unordered && e.Below(w.Token)", "false && !w.Unordered", older),
		etcd("gone", "R2: a session that is gone puts an entry",
			etcdAcquire, "clientv3.Compare(clientv3.CreateRevision(b.keys.aliveOf(s)), \">\", 0)", "clientv3.Compare(clientv3.CreateRevision(b.keys.aliveOf(s)), \">\", -1)", gone),
		redis("older", "R2: older entries are not told",
			"    w.older = below(w.key, w.token)\n", "", older),
		redis("stale", "R2: a lower token is recorded",
			"    if c < 0 then return", "    if false then return", stale),
		redis("gone", "R2: a session that is gone puts an entry",
			"if not ok then return why end", "if false then return why end", gone),
		postgres("older", "R2: older entries are not told",
			"AND (token < p_tokens[i] OR nonce < 0)", "AND nonce < 0", older),
		postgres("stale", "R2: a lower token is recorded",
			"\t\tELSIF p_tokens[i] < r.highest THEN\n", "\t\tELSIF false THEN\n", stale),
		postgres("gone", "R2: a session that is gone puts an entry",
			"\tPERFORM 1 FROM {sessions} WHERE id = p_session AND NOT gone AND expires_at > clock_timestamp();\n", "\tPERFORM 1 FROM {sessions} WHERE id = p_session;\n", gone),
	}
}
