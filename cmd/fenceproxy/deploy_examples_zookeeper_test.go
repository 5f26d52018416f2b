package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore/servertest"
)

// javaPath are Debian's jars of these names.
func javaPath(t *testing.T, names ...string) string {
	t.Helper()
	var jars []string
	for _, name := range names {
		jar := "/usr/share/java/" + name + ".jar"
		if _, err := os.Stat(jar); err != nil {
			t.Fatalf("%s is not here, and this test needs it: run make deps, or on Debian apt-get install libcurator-recipes-java libzookeeper-java", jar)
		}
		jars = append(jars, jar)
	}
	return strings.Join(jars, ":")
}

// kazooPython is a python3 that has kazoo: Debian's package is for Debian's own.
func kazooPython(t *testing.T) string {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import kazoo").Run() == nil {
			return python
		}
	}
	t.Fatal("no python3 has kazoo, and this test needs it: run make deps, or on Debian apt-get install python3-kazoo")
	return ""
}

// takeFirst deletes the node of the one who holds a lock, as the end of its
// session does.
const takeFirst = `
import sys
from kazoo.client import KazooClient
zk = KazooClient(hosts=sys.argv[1])
zk.start()
nodes = zk.get_children(sys.argv[2])
assert nodes, "nobody holds the lock"
zk.delete(sys.argv[2] + "/" + min(nodes, key=lambda n: n[-10:]))
zk.stop()
`

func TestExampleZooKeeper(t *testing.T) {
	java := davProgram(t, "java", "default-jdk-headless")
	javac := davProgram(t, "javac", "default-jdk-headless")
	python := kazooPython(t)
	addr := servertest.Run(t, 1, func(addrs []string) *exec.Cmd {
		dir := t.TempDir()
		file := filepath.Join(dir, "zoo.cfg")
		davWrite(t, file, fmt.Sprintf("tickTime=500\ndataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n", dir, portOf(addrs[0])))
		server := exec.Command(java, "-Xmx128m", "-cp", javaPath(t, "zookeeper"), "org.apache.zookeeper.server.ZooKeeperServerMain", file)
		server.Dir = dir
		return server
	})[0]
	lose := func(path string) func() {
		return func() {
			t.Helper()
			if out, err := exec.Command(python, "-c", takeFirst, addr, path).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
	}
	t.Run("kazoo", func(t *testing.T) {
		w := exampleWorker{command: []string{python, example(t, "kazoo", "worker.py"), addr, "python"}, lose: lose("/locks/python")}
		w.story(t)
	})
	t.Run("curator", func(t *testing.T) {
		path := javaPath(t, "curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute", "guava", "slf4j-api")
		classes := t.TempDir() // `java Worker.java` would compile it once for each start
		if out, err := exec.Command(javac, "-d", classes, "-cp", path, example(t, "curator", "Worker.java")).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		w := exampleWorker{command: []string{java, "-Xmx128m", "-cp", classes + ":" + path, "Worker", addr, "java"}, lose: lose("/locks/java")}
		w.story(t)
	})
}

// kubeLeases is as much of Kubernetes' API as the example uses: Leases that are
// changed only by who names the version that stands.
type kubeLeases struct {
	mu      sync.Mutex
	version int
	leases  map[string]map[string]any

	lose    int           // so many updates of a Lease are made, and their answers lost
	updated chan struct{} // where it is not nil, gets one for each of the others
}

func (s *kubeLeases) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var in map[string]any
	_ = json.NewDecoder(r.Body).Decode(&in)
	name, named := strings.CutPrefix(r.URL.Path, "/apis/coordination.k8s.io/v1/namespaces/default/leases/")
	metadata, _ := in["metadata"].(map[string]any)
	if r.Method == http.MethodPost {
		name, named = metadata["name"].(string), true
	}
	current, there := s.leases[name]
	switch {
	case !named:
		w.WriteHeader(http.StatusBadRequest)
		return
	case r.Method == http.MethodGet && !there, r.Method == http.MethodPut && !there:
		w.WriteHeader(http.StatusNotFound)
		return
	case r.Method == http.MethodPost && there, r.Method == http.MethodPut && metadata["resourceVersion"] != current["metadata"].(map[string]any)["resourceVersion"]:
		w.WriteHeader(http.StatusConflict)
		return
	case r.Method != http.MethodGet:
		s.version++
		metadata["resourceVersion"] = strconv.Itoa(s.version)
		s.leases[name] = in
		if r.Method == http.MethodPut && s.lose > 0 {
			s.lose--
			panic(http.ErrAbortHandler)
		}
		if r.Method == http.MethodPut && s.updated != nil {
			s.updated <- struct{}{}
		}
	}
	_ = json.NewEncoder(w).Encode(s.leases[name])
}

func TestExampleKubernetes(t *testing.T) {
	api := httptest.NewServer(&kubeLeases{leases: map[string]map[string]any{}})
	defer api.Close()
	w := exampleWorker{command: []string{buildExample(t, "kubernetes"), api.URL, "default/lock"}}
	w.story(t)
}

// TestExampleKubernetesAnswerLost: a renewal that is made, and whose answer is lost,
// is no loss of the Lease: it is renewed on, and given back in the end.
func TestExampleKubernetesAnswerLost(t *testing.T) {
	leases := &kubeLeases{leases: map[string]map[string]any{}, lose: 1, updated: make(chan struct{}, 100)}
	api := httptest.NewServer(leases)
	defer api.Close()
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	w := exampleWorker{command: []string{buildExample(t, "kubernetes"), api.URL, "default/lock"}}
	a := w.start(t, upstream.URL)
	select {
	case <-leases.updated:
	case <-time.After(scriptPatience):
		t.Fatal("it is not renewed behind the one whose answer was lost")
	}
	if err := a.finish("A's balance"); err != nil {
		t.Fatalf("%v\n%s", err, a.said)
	}
	leases.mu.Lock()
	defer leases.mu.Unlock()
	if spec := leases.leases["lock"]["spec"].(map[string]any); spec["holderIdentity"] != "" {
		t.Errorf("it was not given back: %v", spec)
	}
}
