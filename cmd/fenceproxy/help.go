package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// manual is what --help says of a command beside its flags.
type manual struct {
	long    string // "" where the command has one
	exit    string
	example string // command lines
}

// Exit codes that several commands have.
const (
	exitsFine     = "0 done, 2 wrong usage"
	exitsOfKeys   = "0 done, 1 refused, or the proxy was not reached, 2 wrong usage"
	exitsOfStores = "0 done, 1 failed, damaged, or in use, 2 wrong usage or configuration"
)

// manuals are by the words behind fenceproxy.
var manuals = map[string]manual{
	"": {
		long: `Refuses stale writes in front of any HTTP API, by their fencing tokens: it
remembers the highest token of each resource, durably, lets nothing through that
is lower, and sends a newer write only when every older one is over.

Try it with fenceproxy demo; put it in front of a service with fenceproxy serve.
Each flag has a variable: --data is FENCEPROXY_DATA. A flag wins.`,
		exit:    "0 fine, 1 failed while running, 2 wrong usage or configuration, 3\nstopped while writes were in flight, unsettled or quarantined; lock has its own",
		example: "fenceproxy serve --upstream http://127.0.0.1:9000",
	},
	"serve": {
		exit: "0 stopped with everything settled, 1 failed (a listener, the store),\n2 wrong usage or configuration, 3 stopped while writes were in flight, unsettled\nor quarantined",
		example: `fenceproxy serve --upstream http://127.0.0.1:9000 --listen 127.0.0.1:8080
fenceproxy serve --config /etc/fenceproxy/fenceproxy.yaml`,
	},
	"check": {
		long: `Load a configuration with all files that it names, and print everything that is
wrong with it at once, as FILE:LINE:COL: path.to.setting: what is wrong (what
would be right), then what is right but seldom meant, as warnings. It listens on
nothing, and makes and opens no store.`,
		exit:    "0 fine, warnings or not, 2 errors, or wrong usage",
		example: "fenceproxy check --config fenceproxy.yaml",
	},
	"explain": {
		long: `Tell how the proxy would read a request: its canonical target, the rule that it
matches and why the others do not, its resource keys, the policy, and what it
would get, naming the problem. Nothing is sent, and no store is asked: whether
the token is stale is for fenceproxy keys check to say.

URL is a path, or a whole URL whose host counts as the Host header.`,
		exit: "0 told, whatever the request would get, 2 wrong usage or configuration",
		example: `fenceproxy explain --config fenceproxy.yaml PUT /accounts/42 -H 'X-Fencing-Token: 7'
fenceproxy explain --config fenceproxy.yaml POST /transfer -H 'Content-Type: application/json' -d '{"from":"1","to":"2"}'`,
	},
	"demo": {exit: "0 it went as it tells, 1 it did not", example: "fenceproxy demo"},
	"demo api": {
		long: `Serve a small API to try the proxy on: it keeps what is PUT, in memory, gives it
back on GET, and knows nothing of tokens.`,
		exit: "0 stopped, 1 failed, 2 wrong usage", example: "fenceproxy demo api --listen 127.0.0.1:9000",
	},
	"keys": {
		exit: exitsOfKeys,
		example: `fenceproxy keys get account:42
fenceproxy keys list --admin https://127.0.0.1:9901 --ca-file ca.pem --token-file token`,
	},
	"keys list": {
		long: `The keys that have a record, in their order, each with its highest token, who
raised it and when. They are fetched and printed a page at a time, so that a
list of millions needs no memory and holds up no write; as JSON, one on a line.

With --busy only the keys on which something goes on: how many writes are in
flight and since when, how many are unsettled, until when at the latest and why,
and how many wait. That is what this proxy has in memory: over a shared store
ask each proxy for its own. What a quarantine after a crash holds is not listed
before a write waits for it.`,
		exit: exitsOfKeys,
		example: `fenceproxy keys list --prefix account: --output json
fenceproxy keys list --busy`,
	},
	"keys get": {
		long: `What goes on at a key: its highest token, the writes that are in flight or
unsettled and for how long still, how many wait, and whether the key is
quarantined after a crash.`,
		exit:    exitsOfKeys,
		example: "fenceproxy keys get account:42",
	},
	"keys raise": {
		long: `Announce a new holder: record a higher token without a write, so that everything
older is refused from now on, and wait until every older write is over, at most
for the drain_timeout of the rule. The token counts even where the wait fails.

A lease that somebody holds of the key goes on: its holder's writes are refused,
and nobody else gets it before it is released or runs out. End that holder.`,
		exit:    exitsOfKeys,
		example: "fenceproxy keys raise account:42 8 --reason 'hand-over to the new site'",
	},
	"keys settle": {
		long: `Vouch that the writes of a key that the proxy lost sight of are over, those of
before the last crash too, so that newer ones go on at once. If one of them still
lands, it may overwrite a newer one: look at the service first.`,
		exit:    exitsOfKeys,
		example: "fenceproxy keys settle account:42 --reason 'the backend was restarted'",
	},
	"keys forget": {
		long: `Forget a key, or all those of a prefix or an age: the next write begins anew,
whatever its token, also that of a holder of before. Keys are kept that have
anything in flight, unsettled, quarantined or leased. Look with --dry-run first.`,
		exit: exitsOfKeys,
		example: `fenceproxy keys forget account:42 --reason 'the account is closed'
fenceproxy keys forget --prefix session: --raised-before 90d --dry-run`,
	},
	"keys check": {
		long: `Whether a write with this token would be refused as stale now. It changes
nothing and promises nothing: a higher token may come before the write does.`,
		exit:    "0 not stale, 1 stale, or the proxy was not reached, 2 wrong usage",
		example: "fenceproxy keys check account:42 7",
	},
	"keys export": {
		long: `Write all records of a running proxy to standard output, for backups and
inspection. To move a store use fenceproxy store, with the proxy stopped.`,
		exit:    exitsOfKeys,
		example: "fenceproxy keys export > backup.ndjson",
	},
	"keys import": {
		long: `Raise the keys of a dump, from a file or standard input, at a running proxy. A
token that is higher already is kept, so that nothing is ever set back.`,
		exit:    exitsOfKeys,
		example: "fenceproxy keys import backup.ndjson --reason 'restored after the disk was lost'",
	},
	"store": {
		long: `Make, check or move the token store that a configuration names, an embedded or a
shared one, while no proxy uses it. For a running proxy there is fenceproxy keys.`,
		exit:    exitsOfStores,
		example: "fenceproxy store verify --config fenceproxy.yaml",
	},
	"store init": {
		long: `Make the store of a configuration. An embedded one that is there is left as it is,
which is an error; in a shared one what is missing is made. With create: false a
proxy starts only where this was done, so that a volume that is not mounted is
not taken for a new store.`,
		exit:    exitsOfStores,
		example: "fenceproxy store init --config fenceproxy.yaml",
	},
	"store verify": {
		long: `Read every record of a store, check its sum, and see that none is lost, which no
single read can. It says how the last stop was.`,
		exit:    exitsOfStores,
		example: "fenceproxy store verify --config fenceproxy.yaml",
	},
	"store export": {
		long: `Write all of a store to standard output, for fenceproxy store import. Keep the old
store stopped for good once the other is in use.`,
		exit:    exitsOfStores,
		example: "fenceproxy store export --config old.yaml > tokens.ndjson",
	},
	"store import": {
		long: `Take what fenceproxy store export or keys export wrote, from a file or standard
input, into the store of a configuration. The higher token of each key is kept; a
dump that was cut or changed is refused.`,
		exit:    exitsOfStores,
		example: "fenceproxy store import --config new.yaml tokens.ndjson",
	},
	"schema":     {exit: exitsFine, example: "fenceproxy schema > fenceproxy.schema.json"},
	"completion": {exit: exitsFine, example: "fenceproxy completion bash > /etc/bash_completion.d/fenceproxy"},
	"version":    {long: "Print the version, the Go version and the VCS revision that this binary was built\nof.", exit: exitsFine, example: "fenceproxy version"},
}

// instruct gives a command and all below it their manuals.
func instruct(cmd *cobra.Command) {
	_, words, _ := strings.Cut(cmd.CommandPath(), " ")
	if m, ok := manuals[words]; ok {
		if m.long != "" {
			cmd.Long = m.long
		}
		cmd.Long += "\n\nExit codes: " + m.exit + "."
		cmd.Example = "  " + strings.ReplaceAll(m.example, "\n", "\n  ")
	}
	for _, c := range cmd.Commands() {
		instruct(c)
	}
}
