package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/fenceproxy/fenceproxy"

// mayImport is the picture of which package may import which of our own: an
// arrow of the picture is a line here, and what has no line has no arrow. A
// name that ends in /... stands for a package and all below it.
var mayImport = []struct {
	from string
	to   []string
	why  string // the line of the picture
}{
	{"cmd/...", []string{"cmd/...", "config", "proxy/...", "tokenstore/..."}, "cmd → config, proxy…, tokenstore…"},
	{"config", nil, "config stands alone: cmd hands each constructor the Options of its own package"},
	{"deploy/examples/...", nil, "what users copy imports nothing of ours"},
	{"proxy", []string{"proxy/route", "proxy/gate", "proxy/upstream", "proxy/wire", "tokenstore"}, "proxy → route, gate, upstream, wire (and tokenstore's words)"},
	{"proxy/admin", []string{"proxy/gate", "proxy/guard", "proxy/wire", "tokenstore", "tokenstore/dump"}, "admin → gate, wire, tokenstore (and who is let in, and the form of a dump)"},
	{"proxy/guard", nil, "guard knows HTTP alone"},
	{"proxy/gate", []string{"tokenstore"}, "gate → tokenstore"},
	{"proxy/listen", nil, "listen knows no request"},
	{"proxy/route", []string{"tokenstore"}, "route → tokenstore"},
	{"proxy/route/differential", nil, "differential is tests only"},
	{"proxy/wire", []string{"tokenstore"}, "wire → tokenstore"},
	{"proxy/upstream", nil, "upstream knows neither gate nor store"},
	{"proxy/client", []string{"proxy/wire", "tokenstore"}, "client → wire, tokenstore"},
	{"proxy/client/clienttest", []string{"proxy/wire"}, "clienttest answers in the client's words, and knows no client"},
	{"proxy/lease", []string{"proxy/gate", "proxy/guard", "proxy/wire", "tokenstore"}, "lease → gate, wire, tokenstore (and who is let in)"},
	{"proxy/torture", []string{"tokenstore/servertest"}, "torture sees the proxy from outside only, as one more server"},
	{"proxy/torture/suites", nil, "suites is tests only"},
	{"proxy/torture/attacks", nil, "attacks is tests only"},
	{"proxy/torture/shared", nil, "shared is tests only"},
	{"proxy/torture/leases", nil, "leases is tests only"},
	{"proxy/torture/mutants", nil, "mutants reads and runs the code, and imports none of it"},
	{"tokenstore", nil, "tokenstore → standard library"},
	{"tokenstore/servertest", nil, "servertest runs servers, and knows none"},
	{"tokenstore/storetest", []string{"tokenstore"}, "tokenstore/X → tokenstore"},
	{"tokenstore/memory", []string{"tokenstore"}, "tokenstore/X → tokenstore"},
	{"tokenstore/dump", []string{"tokenstore"}, "tokenstore/X → tokenstore"},
	{"tokenstore/embedded", []string{"tokenstore", "tokenstore/dump"}, "tokenstore/X → tokenstore (and the form in which it is moved)"},
	{"tokenstore/session", []string{"tokenstore", "tokenstore/dump"}, "tokenstore/X → tokenstore (and the form in which it is moved)"},
	{"tokenstore/session/sessiontest", []string{"tokenstore", "tokenstore/session"}, "the suite of the shared stores' engines"},
	{"tokenstore/session/sessiontest/stories", []string{"tokenstore", "tokenstore/session", "tokenstore/session/sessiontest"}, "the stories of several proxies, over the shared stores' engines"},
	{"tokenstore/etcd", []string{"tokenstore", "tokenstore/dump", "tokenstore/session"}, "the shared stores also → session (and the form in which records are moved)"},
	{"tokenstore/etcd/etcdtest", []string{"tokenstore/servertest"}, "it starts an engine, and knows no store"},
	{"tokenstore/postgres", []string{"tokenstore", "tokenstore/dump", "tokenstore/session"}, "the shared stores also → session (and the form in which records are moved)"},
	{"tokenstore/postgres/postgrestest", []string{"tokenstore/servertest"}, "it starts an engine, and knows no store"},
	{"tokenstore/redis", []string{"tokenstore", "tokenstore/dump", "tokenstore/session"}, "the shared stores also → session (and the form in which records are moved)"},
	{"tokenstore/redis/redistest", []string{"tokenstore/servertest"}, "it starts an engine, and knows no store"},
}

// testsMayImport is what _test.go files may import beside that.
var testsMayImport = []struct {
	from string
	to   []string
	why  string
}{
	{"tokenstore/...", []string{"tokenstore", "tokenstore/storetest", "tokenstore/memory", "tokenstore/session/sessiontest/..."}, "every store runs the suite, and the suite runs a store"},
	{"tokenstore/etcd", []string{"tokenstore/etcd/etcdtest"}, "a real server judges the adapter"},
	{"tokenstore/postgres", []string{"tokenstore/postgres/postgrestest"}, "a real server judges the adapter"},
	{"tokenstore/redis", []string{"tokenstore/redis/redistest"}, "a real server judges the adapter"},
	{"proxy/...", []string{"tokenstore", "tokenstore/storetest", "tokenstore/memory", "tokenstore/embedded", "proxy/wire"}, "the life of a request is tested over a real store, and one that fails"},
	{"proxy/upstream", []string{"tokenstore/servertest"}, "sockets have a short directory"},
	{"proxy/listen", []string{"tokenstore/servertest"}, "the same"},
	{"proxy/route/differential", []string{"proxy/route", "tokenstore/servertest"}, "real servers judge the routes"},
	{"proxy/torture", []string{"proxy/torture", "proxy/gate", "proxy/upstream"}, "a judge may be tried on the parts"},
	{"proxy/torture/suites", []string{"proxy/torture", "tokenstore/servertest"}, "the binary is built and started by its helpers"},
	{"proxy/torture/attacks", []string{"proxy/torture", "proxy/gate", "tokenstore/servertest"}, "the binary is built and started by its helpers, and the gate is flooded by itself"},
	{"proxy/torture/shared", []string{"proxy/torture", "tokenstore/etcd/etcdtest", "tokenstore/postgres/postgrestest", "tokenstore/redis/redistest"}, "the binary and real engines are started by their helpers"},
	{"proxy/torture/leases", []string{"proxy/torture", "proxy/wire", "tokenstore/servertest", "tokenstore/etcd/etcdtest", "tokenstore/postgres/postgrestest", "tokenstore/redis/redistest"}, "the binary and real engines are started by their helpers, and what passes is read"},
	{"proxy/client", []string{"proxy/client/clienttest"}, "a server in memory answers the client"},
	{"cmd/fenceproxy", []string{"proxy/client/clienttest"}, "it answers fenceproxy lock, and can take a lease away"},
	{"cmd/...", []string{"proxy/torture", "tokenstore/servertest"}, "the binary is built and started by its helpers"},
	{"cmd/fenceproxy", []string{"tokenstore/etcd/etcdtest", "tokenstore/postgres/postgrestest", "tokenstore/redis/redistest"}, "a store is moved to real engines"},
}

// listed is what go list tells of a package.
type listed struct {
	ImportPath string
	Standard   bool

	Imports, TestImports, XTestImports []string
}

// goList runs go list for one operating system.
func goList(t *testing.T, goos string, args ...string) (pkgs []listed) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Standard,Imports,TestImports,XTestImports"}, args...)...)
	cmd.Dir = moduleRoot(t)
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, &stderr)
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return pkgs
		}
		if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

func moduleRoot(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOMOD").Output()
	root := path.Dir(strings.TrimSpace(string(out)))
	if err != nil || root == "." {
		t.Fatalf("go env GOMOD: %q, %v; run the test from within the module", out, err)
	}
	return root
}

// within returns the place of one of our own packages in the module.
func within(importPath string) (place string, ours bool) {
	return strings.CutPrefix(importPath, module+"/")
}

// covers reports whether a name of the tables stands for a package.
func covers(name, place string) bool {
	if base, all := strings.CutSuffix(name, "/..."); all {
		return place == base || strings.HasPrefix(place, base+"/")
	}
	return name == place
}

// arrow looks an import up in the picture: whether it may be, which line of
// the picture is about it, and whether any line is.
func arrow(from, to string) (allowed bool, line string, known bool) {
	for _, row := range mayImport {
		if covers(row.from, from) {
			return slices.ContainsFunc(row.to, func(name string) bool { return covers(name, to) }), row.why, true
		}
	}
	return false, "", false
}

// testArrow is arrow for an import of a _test.go file.
func testArrow(from, to string) bool {
	if from == to { // an external test
		return true
	}
	if ok, _, _ := arrow(from, to); ok {
		return true
	}
	for _, row := range testsMayImport {
		if covers(row.from, from) && slices.ContainsFunc(row.to, func(name string) bool { return covers(name, to) }) {
			return true
		}
	}
	return false
}

// TestImports holds the picture: imports between our own packages point down
// only, on every system that we build for.
func TestImports(t *testing.T) {
	for _, goos := range []string{"linux", "darwin"} {
		t.Run(goos, func(t *testing.T) {
			edges := 0
			for _, p := range goList(t, goos, "-deps", "./...") {
				from, ours := within(p.ImportPath)
				if !ours {
					continue
				}
				if _, _, known := arrow(from, ""); !known {
					t.Errorf("the picture has no package %s: give it a line in mayImport, in the room that fits it", from)
					continue
				}
				for _, imported := range p.Imports {
					to, ours := within(imported)
					if !ours {
						continue
					}
					edges++
					if ok, line, _ := arrow(from, to); !ok {
						t.Errorf("%s imports %s, which breaks the line %q of the picture", from, to, line)
					}
				}
			}
			for _, p := range goList(t, goos, "./...") {
				from, _ := within(p.ImportPath)
				for _, imported := range append(p.TestImports, p.XTestImports...) {
					if to, ours := within(imported); ours && !testArrow(from, to) {
						t.Errorf("a test of %s imports %s, for which neither mayImport nor testsMayImport has a line", from, to)
					}
				}
			}
			if edges < 10 {
				t.Errorf("only %d imports were looked at: this has shown nothing", edges)
			}
		})
	}
}

// TestConfigIsKnownToCmdAlone says the same once more in the other direction,
// tests included.
func TestConfigIsKnownToCmdAlone(t *testing.T) {
	for _, p := range goList(t, "linux", "./...") {
		from, _ := within(p.ImportPath)
		for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if to, _ := within(imported); to == "config" && from != "config" && !covers("cmd/...", from) {
				t.Errorf("%s imports config, which breaks the line %q of the picture", from, "config is known to cmd alone")
			}
		}
	}
}

// TestTokenstoreIsPure: tokenstore is stable API that anybody may import for
// nothing but the standard library.
func TestTokenstoreIsPure(t *testing.T) {
	pkgs := goList(t, "linux", "-deps", "./tokenstore")
	standard := map[string]bool{}
	for _, p := range pkgs {
		standard[p.ImportPath] = p.Standard
	}
	own := pkgs[len(pkgs)-1] // go list puts what is asked for behind its dependencies
	if own.ImportPath != module+"/tokenstore" || len(own.Imports) == 0 {
		t.Fatalf("go list told of %+v: this has shown nothing", own)
	}
	for _, imported := range own.Imports {
		if !standard[imported] {
			t.Errorf("tokenstore imports %s, which breaks the line %q of the picture", imported, "tokenstore → standard library")
		}
	}
}

// testOnly are modules that tests need, and that the binary must not carry.
var testOnly = []string{"github.com/coder/websocket", "github.com/rogpeppe/go-internal"}

func TestBinaryCarriesNoTestModule(t *testing.T) {
	pkgs := goList(t, "linux", "-deps", "./cmd/fenceproxy")
	if len(pkgs) < 10 {
		t.Fatalf("only %d packages were looked at: this has shown nothing", len(pkgs))
	}
	for _, p := range pkgs {
		for _, m := range testOnly {
			if p.ImportPath == m || strings.HasPrefix(p.ImportPath, m+"/") {
				t.Errorf("the binary carries %s, which is for tests only", p.ImportPath)
			}
		}
	}
}

// topLevel is all that may stand at the module's root, beside names that begin
// with a dot.
var topLevel = []string{"LICENSE", "Makefile", "README.md", "cmd", "config", "deploy", "go.mod", "go.sum", "proxy", "tokenstore"}

// TestTopLevel: the root is the user's. Outside a git checkout the directory
// itself is read, and what a build leaves there is known to .gitignore.
func TestTopLevel(t *testing.T) {
	root := moduleRoot(t)
	var names []string
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	if out, err := cmd.Output(); err == nil {
		for file := range strings.SplitSeq(string(out), "\x00") {
			top, _, _ := strings.Cut(file, "/")
			names = append(names, top)
		}
	} else {
		entries, err := os.ReadDir(root)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		names = slices.DeleteFunc(names, func(n string) bool { return n == "fenceproxy" || n == "fenceproxy-data" })
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if name != "" && !strings.HasPrefix(name, ".") && !slices.Contains(topLevel, name) {
			t.Errorf("%s stands at the top level, which is the user's: give it a room inside", name)
		}
	}
	if !slices.Contains(names, "go.mod") {
		t.Errorf("no go.mod among %v: this has shown nothing", names)
	}
}
