-- The tables and functions of the store. Names in braces are put in by
-- schema.go, with their schema and prefix.
--
-- Every function is called as a statement of its own, in READ COMMITTED: each
-- statement in it sees what was committed before that statement began. A row
-- that was locked is therefore read as it is now, and what is read in a later
-- statement is no older.
--
-- The order of locks, so that nobody waits in a circle: the session's advisory
-- lock, the rows of keys in the order of keys, the rows of entries in the order
-- of (key, token, session, nonce). The row of a lease comes before that of its
-- key, and the counter last of all. That one is found by its index: a plan that
-- reads a whole table counts as so dear here that PostgreSQL would compile it.

--:tables

-- One row: what kind of store this is, and what it keeps for all proxies.
CREATE TABLE {about} (
	one    boolean PRIMARY KEY DEFAULT true CHECK (one),
	format integer NOT NULL,
	id     uuid NOT NULL DEFAULT gen_random_uuid(),
	value  bytea
);

-- A token is 24 bytes, big-endian: comparing bytes compares tokens. Rows keep
-- room for their next version, so that a raise touches no index.
CREATE TABLE {keys} (
	key       bytea PRIMARY KEY CHECK (length(key) BETWEEN 1 AND 1024),
	highest   bytea NOT NULL CHECK (length(highest) = 24),
	raised_at timestamptz NOT NULL,
	holder    bytea NOT NULL
) WITH (fillfactor = 70);

CREATE TABLE {sessions} (
	id         uuid PRIMARY KEY,
	expires_at timestamptz NOT NULL,
	gone       boolean NOT NULL DEFAULT false -- final; written before anybody is told
) WITH (fillfactor = 50);

CREATE TABLE {entries} (
	key       bytea NOT NULL,
	token     bytea NOT NULL CHECK (length(token) = 24),
	session   uuid NOT NULL,
	nonce     bigint NOT NULL,
	overtaken boolean NOT NULL DEFAULT false, -- an acquire has found it as an older one
	PRIMARY KEY (key, token, session, nonce)
);
CREATE INDEX {entries_session} ON {entries} (session, overtaken);

INSERT INTO {about} (format) VALUES (1);

--:functions

-- Stores of before there were leases get what these need. The counter is where
-- nobody can lose it alone: a token without an epoch, NULL before the first grant.
CREATE TABLE IF NOT EXISTS {leases} (
	key   bytea PRIMARY KEY CHECK (length(key) BETWEEN 1 AND 1024),
	value bytea NOT NULL
) WITH (fillfactor = 70);
ALTER TABLE {about} ADD COLUMN IF NOT EXISTS granted bytea CHECK (length(granted) = 24);

-- durable makes this transaction wait for its disk, and refuses to be part of
-- one that reads an old snapshot: what is read under a lock would be stale.
CREATE OR REPLACE FUNCTION {durable}() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('transaction_isolation') <> 'read committed' THEN
		RAISE EXCEPTION 'fenceproxy needs READ COMMITTED, and this transaction is %', current_setting('transaction_isolation')
			USING HINT = 'Take default_transaction_isolation out of the role, the database and the URL.';
	END IF;
	IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
		PERFORM set_config('synchronous_commit', 'on', true);
	END IF;
END $$;

CREATE OR REPLACE FUNCTION {begin}(p_session uuid, p_ttl bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM {durable}();
	INSERT INTO {sessions} (id, expires_at) VALUES (p_session, clock_timestamp() + p_ttl * interval '1 microsecond');
END $$;

-- bury writes down that a session is gone. An acquire holds the lock shared
-- from before it looks at the session until it has committed: with the lock
-- exclusive none is under way, and a later one finds it gone. Where one is,
-- nobody is told yet, and nobody waits.
CREATE OR REPLACE FUNCTION {bury}(p_session uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF pg_try_advisory_xact_lock(uuid_hash_extended(p_session, 0)) THEN
		UPDATE {sessions} SET gone = true WHERE id = p_session AND NOT gone AND expires_at <= clock_timestamp();
	END IF;
END $$;

-- keep_alive is one row, 'done' or 'over', and before it one for each entry of
-- the session that is overtaken: R7's proof.
CREATE OR REPLACE FUNCTION {keep_alive}(p_session uuid, p_ttl bigint) RETURNS TABLE (o_said text, o_key bytea, o_token bytea) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM {durable}();
	UPDATE {sessions} SET expires_at = clock_timestamp() + p_ttl * interval '1 microsecond'
		WHERE id = p_session AND NOT gone AND expires_at > clock_timestamp();
	IF NOT FOUND THEN
		PERFORM {bury}(p_session);
		RETURN QUERY SELECT 'over', NULL::bytea, NULL::bytea;
		RETURN;
	END IF;
	RETURN QUERY SELECT 'overtaken', k.key, k.highest FROM {entries} e JOIN {keys} k ON k.key = e.key WHERE e.session = p_session AND e.overtaken;
	RETURN QUERY SELECT 'done', NULL::bytea, NULL::bytea;
END $$;

CREATE OR REPLACE FUNCTION {sessions_alive}() RETURNS TABLE (o_session uuid, o_alive boolean) LANGUAGE plpgsql AS $$
DECLARE
	expired uuid;
BEGIN
	PERFORM {durable}();
	FOR expired IN SELECT id FROM {sessions} WHERE NOT gone AND expires_at <= clock_timestamp() ORDER BY id LOOP
		PERFORM {bury}(expired);
	END LOOP;
	RETURN QUERY SELECT id, NOT gone FROM {sessions};
END $$;

-- end_session waits for acquires that are under way: none may commit after it.
CREATE OR REPLACE FUNCTION {end_session}(p_session uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM {durable}();
	PERFORM pg_advisory_xact_lock(uuid_hash_extended(p_session, 0));
	DELETE FROM {sessions} WHERE id = p_session;
END $$;

-- acquire is R2, for keys that come sorted. It returns the older entries and
-- then 'done', with how many records it has raised for a nonce, or the one
-- refusal.
--
-- A nonce below 0 is that of an unordered entry, which has the lowest token and
-- is below every one. It asks nothing of the record, so its key is not locked: it
-- is there for all who come after it has committed, and is not sent before. (To
-- an acquire without number it is any entry with the lowest token: it refuses to
-- put one under a higher record, and does not wait for it with that very token.)
CREATE OR REPLACE FUNCTION {acquire_2}(p_session uuid, p_keys bytea[], p_tokens bytea[], p_holders bytea[], p_nonces bigint[])
RETURNS TABLE (o_said text, o_key bytea, o_token bytea, o_session uuid, o_nonce bigint, o_holder bytea) LANGUAGE plpgsql AS $$
DECLARE
	r      record;
	made   bytea[] := '{}'; -- the keys whose records this transaction has made
	raised bigint := 0; -- records with a higher token than before
BEGIN
	PERFORM {durable}();
	PERFORM pg_advisory_xact_lock_shared(uuid_hash_extended(p_session, 0));
	PERFORM 1 FROM {sessions} WHERE id = p_session AND NOT gone AND expires_at > clock_timestamp();
	IF NOT FOUND THEN
		PERFORM {bury}(p_session);
		o_said := 'over';
		RETURN NEXT;
		RETURN;
	END IF;

	-- First all keys are locked and looked at, and only then anything is put.
	<<each>>
	FOR i IN 1 .. cardinality(p_keys) LOOP
		CONTINUE WHEN p_nonces[i] < 0;
		LOOP
			SELECT highest, holder INTO r FROM {keys} WHERE key = p_keys[i] FOR NO KEY UPDATE;
			EXIT WHEN FOUND;
			INSERT INTO {keys} (key, highest, raised_at, holder) VALUES (p_keys[i], p_tokens[i], clock_timestamp(), p_holders[i]) ON CONFLICT DO NOTHING;
			IF FOUND THEN
				made := made || p_keys[i];
				CONTINUE each;
			END IF; -- somebody else has made it since: it can be locked now
		END LOOP;
		IF length(r.highest) <> 24 THEN
			o_said := 'damaged';
		ELSIF p_tokens[i] < r.highest THEN
			o_said := 'stale';
		ELSIF p_tokens[i] = r.highest AND p_holders[i] <> '' AND r.holder <> '' AND p_holders[i] <> r.holder THEN
			o_said := 'collision';
		ELSE
			CONTINUE each;
		END IF;
		DELETE FROM {keys} WHERE key = ANY (made);
		o_key := p_keys[i];
		o_token := r.highest;
		o_holder := r.holder;
		RETURN NEXT;
		RETURN;
	END LOOP;

	FOR i IN 1 .. cardinality(p_keys) LOOP
		IF p_nonces[i] < 0 THEN
			INSERT INTO {entries} (key, token, session, nonce) VALUES (p_keys[i], p_tokens[i], p_session, p_nonces[i]);
			CONTINUE;
		END IF;
		IF NOT p_keys[i] = ANY (made) THEN
			UPDATE {keys} SET highest = p_tokens[i], raised_at = clock_timestamp(), holder = p_holders[i] WHERE key = p_keys[i] AND highest < p_tokens[i];
			IF FOUND THEN
				raised := raised + 1;
			ELSIF p_holders[i] <> '' THEN
				UPDATE {keys} SET holder = p_holders[i] WHERE key = p_keys[i] AND holder = '';
			END IF;
		END IF;
		INSERT INTO {entries} (key, token, session, nonce) VALUES (p_keys[i], p_tokens[i], p_session, p_nonces[i]);
		-- The key is locked: whoever has put an entry with a token has committed
		-- it, and the next one finds the higher record.
		FOR r IN SELECT * FROM {entries} WHERE key = p_keys[i] AND token <= p_tokens[i] AND (token < p_tokens[i] OR nonce < 0) ORDER BY token, session, nonce LOOP
			IF NOT r.overtaken THEN
				UPDATE {entries} SET overtaken = true WHERE key = r.key AND token = r.token AND session = r.session AND nonce = r.nonce;
				CONTINUE WHEN NOT FOUND; -- deleted meanwhile
			END IF;
			o_said := 'older';
			o_key := r.key;
			o_token := r.token;
			o_session := r.session;
			o_nonce := r.nonce;
			RETURN NEXT;
		END LOOP;
	END LOOP;
	o_said := 'done';
	o_nonce := raised + cardinality(made);
	RETURN NEXT;
END $$;

-- remove deletes entries, which come sorted, and returns the keys on which
-- another session has an entry: it may wait for these.
CREATE OR REPLACE FUNCTION {remove}(p_keys bytea[], p_tokens bytea[], p_sessions uuid[], p_nonces bigint[]) RETURNS SETOF bytea LANGUAGE plpgsql AS $$
BEGIN
	PERFORM {durable}();
	FOR i IN 1 .. cardinality(p_keys) LOOP
		DELETE FROM {entries} WHERE key = p_keys[i] AND token = p_tokens[i] AND session = p_sessions[i] AND nonce = p_nonces[i];
		CONTINUE WHEN NOT FOUND;
		PERFORM 1 FROM {entries} WHERE key = p_keys[i] AND session <> p_sessions[i] LIMIT 1;
		IF FOUND THEN
			RETURN NEXT p_keys[i];
		END IF;
	END LOOP;
END $$;

-- restore raises without an entry, for keys that come sorted: the higher token
-- is kept. Who holds an entry below it is told as by any other raise.
CREATE OR REPLACE FUNCTION {restore}(p_keys bytea[], p_tokens bytea[], p_raised timestamptz[], p_holders bytea[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM {durable}();
	FOR i IN 1 .. cardinality(p_keys) LOOP
		INSERT INTO {keys} AS k (key, highest, raised_at, holder) VALUES (p_keys[i], p_tokens[i], p_raised[i], p_holders[i])
			ON CONFLICT (key) DO UPDATE SET highest = excluded.highest, raised_at = excluded.raised_at, holder = excluded.holder WHERE k.highest < excluded.highest;
		IF NOT FOUND AND p_holders[i] <> '' THEN
			UPDATE {keys} SET holder = p_holders[i] WHERE key = p_keys[i] AND highest = p_tokens[i] AND holder = '';
		END IF;
	END LOOP;
	FOR i IN 1 .. cardinality(p_keys) LOOP
		UPDATE {entries} SET overtaken = true WHERE key = p_keys[i] AND token < p_tokens[i] AND NOT overtaken;
	END LOOP;
END $$;

-- change replaces what is kept for all proxies, if it is still p_old.
CREATE OR REPLACE FUNCTION {change}(p_old bytea, p_next bytea) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	PERFORM {durable}();
	UPDATE {about} SET value = p_next WHERE value IS NOT DISTINCT FROM p_old;
	RETURN FOUND;
END $$;

-- swap_lease puts p_next in the place of p_was, NULL for nobody's lease, and
-- reports whether it did. For a grant the key's record must be below p_token,
-- and the counter goes from p_granted to p_counter.
CREATE OR REPLACE FUNCTION {swap_lease}(p_key bytea, p_was bytea, p_next bytea, p_grant boolean, p_token bytea, p_granted bytea, p_counter bytea) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	r record;
BEGIN
	PERFORM {durable}();
	IF p_was IS NULL THEN
		-- Where somebody is about to put one this waits for that.
		INSERT INTO {leases} (key, value) VALUES (p_key, p_next) ON CONFLICT DO NOTHING;
		IF NOT FOUND THEN
			RETURN false;
		END IF;
	ELSE
		SELECT value INTO r FROM {leases} WHERE key = p_key FOR UPDATE;
		IF NOT FOUND OR r.value <> p_was THEN
			RETURN false;
		END IF;
	END IF;
	IF p_grant THEN
		SELECT highest INTO r FROM {keys} WHERE key = p_key FOR SHARE; -- waits for a raise that is under way
		IF NOT FOUND OR (length(r.highest) = 24 AND r.highest < p_token) THEN
			UPDATE {about} SET granted = p_counter WHERE one AND granted IS NOT DISTINCT FROM p_granted;
		END IF;
		IF NOT FOUND OR length(r.highest) <> 24 OR r.highest >= p_token THEN
			IF p_was IS NULL THEN
				DELETE FROM {leases} WHERE key = p_key;
			END IF;
			RETURN false;
		END IF;
	END IF;
	IF p_next IS NULL THEN
		DELETE FROM {leases} WHERE key = p_key;
	ELSIF p_was IS NOT NULL THEN
		UPDATE {leases} SET value = p_next WHERE key = p_key;
	END IF;
	RETURN true;
END $$;

-- raise_granted makes the counter at least p_counter, and returns it.
CREATE OR REPLACE FUNCTION {raise_granted}(p_counter bytea) RETURNS bytea LANGUAGE plpgsql AS $$
BEGIN
	PERFORM {durable}();
	UPDATE {about} SET granted = p_counter WHERE one AND p_counter > coalesce(granted, '');
	RETURN (SELECT granted FROM {about} WHERE one);
END $$;
