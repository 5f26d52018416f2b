package config

import (
	"strings"
	"testing"
)

// badFiles are files with what is told of them, to the letter.
var badFiles = []struct {
	name string
	data string
	want []string
}{
	{"empty file", "", []string{
		`f.yaml: upstream.url: is missing (the service to protect, as in http://127.0.0.1:9000)`,
		`f.yaml: store: names no kind (exactly one of embedded, as in embedded: {path: ./fenceproxy-data}, memory: {}, etcd, postgres and redis)`,
		`f.yaml: rules: there is none, so that every write is refused (at least one rule, or unmatched_writes to say what is meant)`,
	}},
	{"only a comment", "# nothing\n", []string{
		`f.yaml: upstream.url: is missing (the service to protect, as in http://127.0.0.1:9000)`,
		`f.yaml: store: names no kind (exactly one of embedded, as in embedded: {path: ./fenceproxy-data}, memory: {}, etcd, postgres and redis)`,
		`f.yaml: rules: there is none, so that every write is refused (at least one rule, or unmatched_writes to say what is meant)`,
	}},
	{"root is a list", "- a\n", []string{
		`f.yaml:1:1: is a list (settings, each as name: value)`,
	}},
	{"root is text", "listen:8080\n", []string{
		`f.yaml:1:1: is the single value "listen:8080" (settings, each as name: value)`,
	}},
	{"group is text", "listen: 8080\nadmin: [x]\nlog: {level: {a: 1}}\n" + good, []string{
		`f.yaml:1:9: listen: is the single value "8080" (settings, each as name: value)`,
		`f.yaml:2:8: admin: is a list (settings, each as name: value)`,
		`f.yaml:3:14: log.level: is a group of settings (debug or info or warn or error; text that begins with {, or has a : inside { }, needs quotes, as in "{id}")`,
	}},
	{"misspelt", "lisen: {}\nlog: {acess: true, levle: info, colour: red, Level: x}\nlimits: {maxWaiting: 1, max-header: 1}\n" + good, []string{
		`f.yaml:1:1: lisen: is not a setting (did you mean listen?)`,
		`f.yaml:2:7: log.acess: is not a setting (did you mean access?)`,
		`f.yaml:2:20: log.levle: is not a setting (did you mean level?)`,
		`f.yaml:2:33: log.colour: is not a setting (here stand: access, format, level)`,
		`f.yaml:2:46: log.Level: is not a setting (did you mean level?)`,
		`f.yaml:3:10: limits.maxWaiting: is not a setting (did you mean max_waiting?)`,
		`f.yaml:3:25: limits.max-header: is not a setting (did you mean max_header?)`,
	}},
	{"wrong place", "drain_timeout: 5s\nfencing: {settle: 1s}\nadmin: {address: \"\", key: x}\n" + good, []string{
		`f.yaml:1:1: drain_timeout: is not a setting (did you mean fencing.drain_timeout?)`,
		`f.yaml:2:11: fencing.settle: is not a setting (did you mean upstream.settle?)`,
		`f.yaml:3:22: admin.key: is not a setting (did you mean rules[].key?)`,
	}},
	{"doubled", good + "log: {level: info, level: debug}\nlog: {}\n\"log\": {}\n", []string{
		`f.yaml:7:20: log.level: is set twice, first in line 7 (keep one of them)`,
		`f.yaml:8:1: log: is set twice, first in line 7 (keep one of them)`,
		`f.yaml:9:1: log: is set twice, first in line 7 (keep one of them)`,
	}},
	{"no value", "listen:\nadmin: ~\nlog: {level: null, access}\n" + good, []string{
		`f.yaml:1:8: listen: has no value (settings, each as name: value, or leave the setting out)`,
		`f.yaml:2:8: admin: has no value (settings, each as name: value, or leave the setting out)`,
		`f.yaml:3:14: log.level: has no value (debug or info or warn or error, or leave the setting out)`,
		`f.yaml:3:21: log.access: has no value (true or false, or leave the setting out)`,
	}},
	{"names that are no names", "? {a: b}\n: 1\n" + good, []string{
		`f.yaml:2:1: found an invalid key for this map (valid YAML)`,
	}},
	{"numeric names", "1: 1\ntrue: 2\n<<: {a: 1}\n\"a b\\nc\": 3\n" + good, []string{
		`f.yaml:1:1: 1: is not a setting (here stand: admin, audit, fencing, leases, limits, listen, log, rules, shutdown_timeout, store, tracing, unmatched_writes, upstream)`,
		`f.yaml:2:1: true: is not a setting (here stand: admin, audit, fencing, leases, limits, listen, log, rules, shutdown_timeout, store, tracing, unmatched_writes, upstream)`,
		`f.yaml:3:1: <<: merge keys are not supported (write the settings out)`,
		`f.yaml:4:1: "a b\nc": is not a setting (here stand: admin, audit, fencing, leases, limits, listen, log, rules, shutdown_timeout, store, tracing, unmatched_writes, upstream)`,
	}},
	{"numbers", "limits: {max_waiting: 0x1F, max_waiting_per_key: 017, max_header: 1_000, max_buffered: 64KB, max_body_buffer: -1}\n" + good, []string{
		`f.yaml:1:23: limits.max_waiting: "0x1F" is not a number (digits alone, as in 64)`,
		`f.yaml:1:50: limits.max_waiting_per_key: "017" is not a number (digits alone, as in 64)`,
		`f.yaml:1:67: limits.max_header: "1_000" is not a size (a size such as 65536, 64KiB or 1MiB)`,
		`f.yaml:1:88: limits.max_buffered: "64KB" is not a size (a size such as 65536, 64KiB or 1MiB)`,
		`f.yaml:1:111: limits.max_body_buffer: "-1" is not a size (a size such as 65536, 64KiB or 1MiB)`,
	}},
	{"numbers 2", "limits: {max_waiting: 0, max_waiting_per_key: 1000001, max_header: 1023, max_buffered: 2TiB, max_body_buffer: 9223372036854775808}\n" + good, []string{
		`f.yaml:1:23: limits.max_waiting: 0 is out of range (1 to 1000000)`,
		`f.yaml:1:47: limits.max_waiting_per_key: 1000001 is out of range (1 to 1000000)`,
		`f.yaml:1:68: limits.max_header: 1023 is out of range (1KiB to 16MiB)`,
		`f.yaml:1:88: limits.max_buffered: 2TiB is out of range (0 to 1TiB)`,
		`f.yaml:1:111: limits.max_body_buffer: "9223372036854775808" is not a size (a size such as 65536, 64KiB or 1MiB)`,
	}},
	{"numbers 3", "limits: {max_waiting: 1.5, max_waiting_per_key: 1e3, max_header: .inf, max_buffered: 9007199254740992KiB, max_body_buffer: true}\n" + good, []string{
		`f.yaml:1:23: limits.max_waiting: "1.5" is not a number (digits alone, as in 64)`,
		`f.yaml:1:49: limits.max_waiting_per_key: "1e3" is not a number (digits alone, as in 64)`,
		`f.yaml:1:66: limits.max_header: ".inf" is not a size (a size such as 65536, 64KiB or 1MiB)`,
		`f.yaml:1:86: limits.max_buffered: "9007199254740992KiB" is not a size (a size such as 65536, 64KiB or 1MiB)`,
		`f.yaml:1:124: limits.max_body_buffer: "true" is not a size (a size such as 65536, 64KiB or 1MiB)`,
	}},
	{"numbers 4", "limits: {max_keys: 1000000001}\n" + good, []string{
		`f.yaml:1:20: limits.max_keys: 1000000001 is out of range (0 to 1000000000; 0 for no limit)`,
	}},
	{"limits against each other", "limits: {max_waiting: 63, max_buffered: 63KiB}\n" + good, []string{
		`f.yaml:1:41: limits.max_buffered: 63KiB does not hold one body of max_body_buffer (64KiB or more)`,
		`warning: f.yaml:1:23: limits.max_waiting: is below max_waiting_per_key, so that one key can take it all (64 or more)`,
	}},
	{"durations", "listen: {header_timeout: 10, idle_timeout: 0s}\nshutdown_timeout: 25h\nfencing: {drain_timeout: -1s}\n" + good, []string{
		`f.yaml:1:26: listen.header_timeout: "10" is not a duration (a duration such as 30s, 500ms or 1m30s)`,
		`f.yaml:1:44: listen.idle_timeout: 0s is out of range (1ms to 24h)`,
		`f.yaml:2:19: shutdown_timeout: 25h0m0s is out of range (1ms to 24h)`,
		`f.yaml:3:26: fencing.drain_timeout: -1s is out of range (1ms to 24h)`,
	}},
	{"booleans", "log: {access: yes}\nfencing: {disclose_highest: True}\n" + good, []string{
		`f.yaml:1:15: log.access: "yes" is not known (true or false)`,
		`f.yaml:2:29: fencing.disclose_highest: "True" is not known (true or false)`,
	}},
	{"choices", "log: {level: inof, format: text}\nfencing: {format: octal, token: maybe, mode: observed, reads: fenced}\nunmatched_writes: allow\n" + good, []string{
		`f.yaml:1:14: log.level: "inof" is not known (did you mean info? debug or info or warn or error)`,
		`f.yaml:1:28: log.format: "text" is not known (auto or console or json)`,
		`f.yaml:2:19: fencing.format: "octal" is not known (decimal or hex or composite)`,
		`f.yaml:2:33: fencing.token: "maybe" is not known (required or optional or none)`,
		`f.yaml:2:46: fencing.mode: "observed" is not known (did you mean observe? enforce or observe)`,
		`f.yaml:2:63: fencing.reads: "fenced" is not known (did you mean fence? pass or fence)`,
		`f.yaml:3:19: unmatched_writes: "allow" is not known (reject or forward)`,
	}},
	{"listening", `listen: {address: unix:run/x.sock, socket_mode: 660, tls: {key_file: k, client_ca_file: c}}
admin: {address: unix:/run/y.sock}
` + good, []string{
		`f.yaml:1:19: listen.address: "unix:run/x.sock" does not name a socket (an absolute path, as in unix:/run/api.sock)`,
		`f.yaml:1:49: listen.socket_mode: "660" is not the mode of a file (four octal digits, as in "0660")`,
		`f.yaml:1:59: listen.tls.cert_file: is missing (the file of the certificate; or leave listen.tls out for plain HTTP)`,
		`f.yaml:2:18: admin.address: is a unix socket, which only listen.address may be (127.0.0.1:PORT, [::1]:PORT or localhost:PORT)`,
	}},
	{"nobody may connect", `listen: {address: unix:/run/x.sock, socket_mode: "0440", tls: {cert_file: c}}
` + good, []string{
		`f.yaml:1:50: listen.socket_mode: 0440 keeps even the proxy's own user from connecting ("0660", or another that has write for its owner)`,
		`f.yaml:1:63: listen.tls.key_file: is missing (the file of the certificate's key)`,
	}},
	{"websockets over h2c", `upstream: {url: "H2C://a"}
store: {embedded: {}}
rules:
  - {name: a, path: /a, key: a, websocket: true}
`, []string{
		`f.yaml:4:44: rules[0].websocket: needs HTTP/1.1, which an h2c upstream does not speak (an http or https URL in upstream.url)`,
	}},
	{"not built", `listen: {}
store: {etcd: {}, session_ttl: 10s}
upstream: {url: "h2c://x"}
admin: {token_file: a, tls: {}, hosts: []}
rules:
  - {name: a, path: /a, key: a}
limits: {max_keys: 1}
audit: ""
tracing: {otlp_endpoint: "localhost:4318", sample_percent: 101}
`, []string{
		`f.yaml:2:15: store.etcd.endpoints: is missing (one or more, as in [http://127.0.0.1:2379])`,
		`f.yaml:7:20: limits.max_keys: is for a store of one proxy: nobody counts the keys of one that several share (leave it out, and limit the space of the store itself)`,
		`f.yaml:9:26: tracing.otlp_endpoint: "localhost:4318" is not the URL of a collector (http://HOST:4318 or https://HOST[/PATH])`,
		`f.yaml:9:60: tracing.sample_percent: 101 is out of range (0 to 100)`,
	}},
	{"leases for everybody", `leases: {address: 10.0.0.1:8090, tls: {cert_file: c, key_file: k}, default_ttl: 50ms, max_ttl: 25h}
` + good, []string{
		`f.yaml:1:19: leases.address: "10.0.0.1:8090" is not a loopback address, and whoever reaches it could take every lease (leases.token_file or leases.tls.client_ca_file beside it; or 127.0.0.1:PORT, [::1]:PORT or localhost:PORT)`,
		`f.yaml:1:81: leases.default_ttl: 50ms is out of range (100ms to 24h)`,
		`f.yaml:1:96: leases.max_ttl: 25h0m0s is out of range (100ms to 24h)`,
	}},
	{"leases where others listen", `leases: {address: "127.0.0.1:9901", tls: {client_ca_file: c}, default_ttl: 2m, max_ttl: 1m}
` + good, []string{
		`f.yaml:1:19: leases.address: is taken by admin.address already (another port)`,
		`f.yaml:1:42: leases.tls.cert_file: is missing (the file of the certificate; or leave leases.tls out for plain HTTP)`,
		`f.yaml:1:76: leases.default_ttl: 2m0s is above max_ttl (at most 1m0s)`,
	}},
	{"leases at no address", "leases: {address: unix:/run/x.sock}\n" + good, []string{
		`f.yaml:1:19: leases.address: is a unix socket, which only listen.address may be (host:port, as in 127.0.0.1:8090)`,
	}},
	{"admin", "admin: {address: \"192.0.2.1:1\", tls: {cert_file: a}, hosts: [a, \"a:1\", \"*.a\", \"\"]}\n" + good, []string{
		`f.yaml:1:18: admin.address: "192.0.2.1:1" is not a loopback address, and anybody could change keys there (127.0.0.1:PORT, [::1]:PORT or localhost:PORT; any other needs admin.token_file or admin.tls.client_ca_file)`,
		`f.yaml:1:38: admin.tls.key_file: is missing (the file of the certificate's key)`,
		`f.yaml:1:65: admin.hosts[1]: "a:1" is neither a name nor an IP address (as in fence.internal, without a port)`,
		`f.yaml:1:72: admin.hosts[2]: "*.a" is neither a name nor an IP address (as in fence.internal, without a port)`,
		`f.yaml:1:79: admin.hosts[3]: "" is neither a name nor an IP address (as in fence.internal, without a port)`,
	}},
	{"admin in clear text", "admin: {address: \":1\", token_file: a}\n" + good, []string{
		`warning: f.yaml:1:8: admin.tls: is left out, and the token crosses the network for all to read (admin.tls.cert_file and key_file)`,
	}},
	{"admin with client certificates alone", "admin: {address: \":1\", tls: {client_ca_file: a}}\n" + good, []string{
		`f.yaml:1:29: admin.tls.cert_file: is missing (the file of the certificate; or leave admin.tls out for plain HTTP)`,
	}},
	{"upstream over TLS", `upstream:
  url: http://a
  tls: {ca_file: a, server_name: b}
` + strings.Replace(good, "upstream: {url: http://127.0.0.1:9000}\n", "", 1), []string{
		`f.yaml:3:18: upstream.tls.ca_file: is for an upstream over https, and upstream.url is none (leave it out, or an https URL)`,
		`f.yaml:3:34: upstream.tls.server_name: is for an upstream over https, and upstream.url is none (leave it out, or an https URL)`,
	}},
	{"half a client certificate", `upstream: {url: "https://a", tls: {cert_file: a, server_name: "a b"}}
` + strings.Replace(good, "upstream: {url: http://127.0.0.1:9000}\n", "", 1), []string{
		`f.yaml:1:47: upstream.tls.cert_file: needs its key (key_file beside it)`,
		`f.yaml:1:63: upstream.tls.server_name: "a b" is neither a name nor an IP address (a name in the upstream's certificate)`,
	}},
	{"trusted proxies", "listen: {trusted_proxies: [10.0.0.1/8, proxy.example, 0.0.0.0/0, \"fe80::1%eth0\", \"::ffff:10.0.0.0/104\"]}\n" + good, []string{
		`f.yaml:1:28: listen.trusted_proxies[0]: "10.0.0.1/8" has bits behind its network (10.0.0.0/8, or 10.0.0.1 alone)`,
		`f.yaml:1:40: listen.trusted_proxies[1]: "proxy.example" is neither an IP address nor a network (as in 10.0.0.0/8, 192.0.2.7 or fd00::/8)`,
		`f.yaml:1:66: listen.trusted_proxies[3]: "fe80::1%eth0" is neither an IP address nor a network (as in 10.0.0.0/8, 192.0.2.7 or fd00::/8)`,
		`f.yaml:1:82: listen.trusted_proxies[4]: "::ffff:10.0.0.0/104" is neither an IP address nor a network (as in 10.0.0.0/8, 192.0.2.7 or fd00::/8)`,
		`warning: f.yaml:1:55: listen.trusted_proxies[2]: believes every client what it says of itself in X-Forwarded-* (the addresses of your proxies)`,
	}},
	{"nothing that is needed", "log: {}\n", []string{
		`f.yaml:1:1: upstream.url: is missing (the service to protect, as in http://127.0.0.1:9000)`,
		`f.yaml:1:1: store: names no kind (exactly one of embedded, as in embedded: {path: ./fenceproxy-data}, memory: {}, etcd, postgres and redis)`,
		`f.yaml:1:1: rules: there is none, so that every write is refused (at least one rule, or unmatched_writes to say what is meant)`,
	}},
	{"two stores", strings.Replace(good, "embedded: {}", "embedded: {}, memory: {}", 1), []string{
		`f.yaml:2:8: store: names embedded and memory (exactly one of embedded, memory, etcd, postgres and redis)`,
	}},
	{"memory", strings.Replace(good, "embedded: {}", "memory: {}", 1), []string{
		`warning: f.yaml:2:17: store.memory: forgets every token when the proxy stops (for trying out; embedded to keep them)`,
	}},
	{"memory without braces", strings.Replace(good, "{embedded: {}}", "\n  memory:", 1), []string{
		`f.yaml:3:10: store.memory: has no value ({}: it has no settings, or leave the setting out)`,
	}},
	{"memory with settings", strings.Replace(good, "embedded: {}", "memory: {path: x}", 1), []string{
		`f.yaml:2:18: store.memory.path: is not a setting (did you mean store.embedded.path?)`,
		`warning: f.yaml:2:17: store.memory: forgets every token when the proxy stops (for trying out; embedded to keep them)`,
	}},
	{"store path", strings.Replace(good, "{}", `{path: ""}`, 1), []string{
		`f.yaml:2:26: store.embedded.path: is empty (a directory, as in ./fenceproxy-data)`,
	}},
	{"accepted rules", strings.Replace(good, "{}}", "{}, accept_changed_rules: [all, al, other]}", 1), []string{
		`f.yaml:2:51: store.accept_changed_rules[1]: no rule has the name "al" (did you mean all?)`,
		`f.yaml:2:55: store.accept_changed_rules[2]: no rule has the name "other" (the name of a rule)`,
		`warning: f.yaml:2:46: store.accept_changed_rules[0]: lets every later change of the keys of rule all pass as well (take it out again after one start)`,
	}},
	{"addresses", "listen: {address: localhost}\nadmin: {address: \"127.0.0.1:x\"}\n" + good, []string{
		`f.yaml:1:19: listen.address: "localhost" is not an address (host:port, as in 127.0.0.1:8080)`,
		`f.yaml:2:18: admin.address: the port of "127.0.0.1:x" is not a number from 0 to 65535 (host:port, as in 127.0.0.1:8080)`,
	}},
	{"addresses 2", "listen: {address: \"127.1:80\"}\nadmin: {address: \":9901\"}\n" + good, []string{
		`f.yaml:1:19: listen.address: the host of "127.1:80" is neither a name nor an IP address (host:port, as in 127.0.0.1:8080)`,
		`f.yaml:2:18: admin.address: ":9901" is not a loopback address, and anybody could change keys there (127.0.0.1:PORT, [::1]:PORT or localhost:PORT; any other needs admin.token_file or admin.tls.client_ca_file)`,
	}},
	{"addresses 3", "listen: {address: \"[::1]:65536\"}\nadmin: {address: \"192.0.2.1:9901\"}\n" + good, []string{
		`f.yaml:1:19: listen.address: the port of "[::1]:65536" is not a number from 0 to 65535 (host:port, as in 127.0.0.1:8080)`,
		`f.yaml:2:18: admin.address: "192.0.2.1:9901" is not a loopback address, and anybody could change keys there (127.0.0.1:PORT, [::1]:PORT or localhost:PORT; any other needs admin.token_file or admin.tls.client_ca_file)`,
	}},
	{"addresses 4", "listen: {address: \":9901\"}\n" + good, []string{
		`f.yaml:1:1: admin.address: is taken by listen.address already (another port)`,
	}},
	{"upstream is itself", "listen: {address: \"0.0.0.0:9000\"}\n" + good, []string{
		`f.yaml:2:17: upstream.url: is listen.address, the proxy itself (the service to protect)`,
	}},
	{"statuses", strings.Replace(good, "9000}", "9000, unsettled_statuses: [202, 100, 600, 202, x]}", 1), []string{
		`f.yaml:1:66: upstream.unsettled_statuses[1]: 100 is not a final status (200 to 599)`,
		`f.yaml:1:71: upstream.unsettled_statuses[2]: 600 is not a final status (200 to 599)`,
		`f.yaml:1:76: upstream.unsettled_statuses[3]: 202 stands twice (once)`,
		`f.yaml:1:81: upstream.unsettled_statuses[4]: "x" is not a number (digits alone, as in 64)`,
	}},
	{"statuses alone", strings.Replace(good, "9000}", "9000, unsettled_statuses: 202}", 1), []string{
		`f.yaml:1:60: upstream.unsettled_statuses: is the single value "202" (a list, as in [a, b] or one item a line after -)`,
	}},
	{"a name that means none", strings.Replace(good, "name: all", "name: none", 1), []string{
		`f.yaml:4:11: rules[0].name: "none" stands in metrics and logs for what no rule covers (another word)`,
	}},
	{"rules", `upstream: {url: http://127.0.0.1:9000}
store: {embedded: {}}
rules:
  - path: /a
  - name: a b
    path: a
    key: ""
  - name: a
    path: []
    key: x
    methods: []
  - name: a
    path: [/a, b, {c: d}]
    key: {id}
    methods: [put, GET, GET, CONNECT, "P T", 7]
  - name: b
    path: /b
    key: x
    token: none
    header: X_Token
    drain_timeout: 0s
    response_timeout: 48h
    settle: 0s
  -
  - x
`, []string{
		`f.yaml:4:5: rules[0].name: is missing (a word for logs and metrics, as in accounts)`,
		`f.yaml:4:5: rules[0].key: is missing (what the path names, as in account:{id}; or token: none)`,
		`f.yaml:5:11: rules[1].name: "a b" is not a plain word (a letter, then at most 62 letters, digits, _ or -)`,
		`f.yaml:6:11: rules[1].path: "a" does not begin with / (as in /accounts/{id})`,
		`f.yaml:7:10: rules[1].key: is missing (what the path names, as in account:{id}; or token: none)`,
		`f.yaml:9:11: rules[2].path: is missing (a pattern or a list of them, as in /accounts/{id})`,
		`f.yaml:11:14: rules[2].methods: is empty (at least one, or leave it out for every write)`,
		`f.yaml:12:11: rules[3].name: "a" is the name of rules[2] too (a name of its own)`,
		`f.yaml:13:16: rules[3].path[1]: "b" does not begin with / (as in /accounts/{id})`,
		`f.yaml:13:19: rules[3].path[2]: is a group of settings (text; text that begins with {, or has a : inside { }, needs quotes, as in "{id}")`,
		`f.yaml:14:10: rules[3].key: is a group of settings (text; text that begins with {, or has a : inside { }, needs quotes, as in "{id}")`,
		`f.yaml:15:15: rules[3].methods[0]: "put" is not in upper case, and methods are told apart by it (PUT)`,
		`f.yaml:15:25: rules[3].methods[2]: GET stands twice (once)`,
		`f.yaml:15:30: rules[3].methods[3]: CONNECT never passes (leave it out)`,
		`f.yaml:15:39: rules[3].methods[4]: "P T" is not a method (as in PUT)`,
		`f.yaml:15:46: rules[3].methods[5]: "7" is not a method (as in PUT)`,
		`f.yaml:20:13: rules[4].header: "X_Token" is not a header name that reaches every server as it is (letters, digits and -, as in X-Fencing-Token)`,
		`f.yaml:21:20: rules[4].drain_timeout: 0s is out of range (1ms to 24h)`,
		`f.yaml:22:23: rules[4].response_timeout: 48h0m0s is out of range (1ms to 24h)`,
		`f.yaml:23:13: rules[4].settle: 0s is out of range (1ms to 24h)`,
		`f.yaml:24:4: rules[5]: has no value (settings, each as name: value, or leave the setting out)`,
		`f.yaml:25:5: rules[6]: is the single value "x" (settings, each as name: value)`,
		`warning: f.yaml:18:10: rules[4].key: has no effect: the rule has token: none (leave it out)`,
	}},
	{"narrow methods without a key", strings.Replace(good, `key: "{path}"`, "methods: [PUT]", 1), []string{
		`f.yaml:4:5: rules[0].key: is missing (what the path names, as in account:{id}; or token: none)`,
	}},
	{"shared stores", `upstream: {url: http://127.0.0.1:9000}
store:
  session_ttl: 2s
  linger: 20s
  etcd: {endpoints: [http://a, https://b, c], prefix: "", username: u, tls: {cert_file: c}}
rules:
  - {name: a, path: /a, key: a, settle: 40s, token: optional}
  - {name: b, path: /b, key: b, mode: observe}
`, []string{
		`f.yaml:3:16: store.session_ttl: 2s is too short to be kept alive over a network (3s or more; 10s is usual)`,
		`f.yaml:4:11: store.linger: 20s is below the longest settle, 40s, so that a write of a proxy that is gone could still land (R9) (40s or more)`,
		`f.yaml:5:9: store.etcd: has one of username and password_file (both, or none)`,
		`f.yaml:5:21: store.etcd.endpoints: are partly http and partly https (all of them the same)`,
		`f.yaml:5:43: store.etcd.endpoints[2]: "c" is not the address of an etcd (as in http://127.0.0.1:2379)`,
		`f.yaml:5:55: store.etcd.prefix: is empty (as in /fenceproxy/, apart from what others keep there)`,
		`f.yaml:5:77: store.etcd.tls: has one of cert_file and key_file (both, or none)`,
	}},
	{"shared stores 2", `upstream: {url: http://127.0.0.1:9000}
store:
  redis: {url: http://x, accept_lost_writes: false}
  margin: 9s
unmatched_writes: forward
`, []string{
		`f.yaml:3:16: store.redis.url: is no redis URL (as in redis://127.0.0.1:6379/0)`,
		`f.yaml:3:46: store.redis.accept_lost_writes: is not true: a failover of Redis can lose the last raises that it acknowledged, and then stale writes pass (true, if that may be; etcd or postgres, if not)`,
		`f.yaml:4:11: store.margin: 9s leaves too little of session_ttl (at most half of it)`,
	}},
	{"shared stores 3", `upstream: {url: http://127.0.0.1:9000}
store:
  postgres: {url: x, table_prefix: A}
unmatched_writes: forward
`, []string{
		`f.yaml:3:19: store.postgres.url: is no postgres URL (as in postgres://user@127.0.0.1:5432/fenceproxy)`,
		`f.yaml:3:36: store.postgres.table_prefix: "A" cannot begin a table's name (small letters, digits and _, at most 32, beginning with a letter, as in fenceproxy_)`,
	}},
	{"not shared", `upstream: {url: http://127.0.0.1:9000}
store: {embedded: {}, linger: 30s}
unmatched_writes: forward
`, []string{
		`f.yaml:2:31: store.linger: is for a store that several proxies share (leave it out)`,
	}},
	{"null name", "~: 1\n[x]: 2\n" + good, []string{
		`f.yaml:2:4: found an invalid key for this map (valid YAML)`,
	}},
	{"null name 2", "~: 1\n" + good, []string{
		`f.yaml:1:1: ?: is not the name of a setting (name: value)`,
	}},
	{"no rules", "upstream: {url: http://127.0.0.1:9000}\nstore: {embedded: {}}\n", []string{
		`f.yaml:1:1: rules: there is none, so that every write is refused (at least one rule, or unmatched_writes to say what is meant)`,
	}},
	{"no rules 2", "upstream: {url: http://127.0.0.1:9000}\nstore: {embedded: {}}\nrules: []\n", []string{
		`f.yaml:3:8: rules: there is none, so that every write is refused (at least one rule, or unmatched_writes to say what is meant)`,
	}},
	{"rules is a group", "upstream: {url: http://127.0.0.1:9000}\nstore: {embedded: {}}\nrules: {name: a}\n", []string{
		`f.yaml:3:8: rules: is a group of settings (a list, as in [a, b] or one item a line after -)`,
	}},
	{"header", "fencing: {header: Content-Length}\n" + good, []string{
		`f.yaml:1:19: fencing.header: headers Content-* mean something else (a header of its own, as in X-Fencing-Token)`,
	}},
	{"header 2", "fencing: {header: \"X Y\"}\n" + good, []string{
		`f.yaml:1:19: fencing.header: "X Y" is not a header name that reaches every server as it is (letters, digits and -, as in X-Fencing-Token)`,
	}},
	{"header 3", "fencing: {header: x-http-method-override}\n" + good, []string{
		`f.yaml:1:19: fencing.header: X-Http-Method-Override means something else in HTTP (a header of its own, as in X-Fencing-Token)`,
	}},
	{"shutdown just enough", "shutdown_timeout: 90s\n" + good, nil},
	{"shutdown", "shutdown_timeout: 89s\n" + good, []string{
		`warning: f.yaml:1:19: shutdown_timeout: 1m29s is below response_timeout + settle, so that a stop may end unclean (1m30s or more)`,
	}},
	{"shutdown below a rule's", strings.Replace(good, "key:", "settle: 41s\n    key:", 1), []string{
		`warning: f.yaml:1:1: shutdown_timeout: 1m40s is below response_timeout + settle, so that a stop may end unclean (1m41s or more)`,
	}},
	{"variables", "listen: {address: \"${ADDR}\"}\nadmin: {address: \"${\"}\nlog: {level: \"${LEVEL}\", format: \"${a-b}\"}\nfencing: {header: \"${X:-{y}}\"}\n" + good, []string{
		`f.yaml:1:19: listen.address: the variable ADDR is not set (set it, or give a default: ${ADDR:-default})`,
		`f.yaml:2:18: admin.address: ${ is not closed (${VAR} or ${VAR:-default}; $${ for the text itself)`,
		`f.yaml:3:14: log.level: holds the character U+000A (one line of text)`,
		`f.yaml:3:34: log.format: "${a-b}" is not a variable (${VAR} or ${VAR:-default}; $${ for the text itself)`,
		`f.yaml:4:19: fencing.header: the default of ${X} holds a brace (a default without { and })`,
	}},
}

func TestBadFiles(t *testing.T) {
	for _, tt := range badFiles {
		t.Run(tt.name, func(t *testing.T) {
			_, r := Load("f.yaml", []byte(tt.data), env("LEVEL", "in\nfo"))
			wantLines(t, r, tt.want...)
		})
	}
}
