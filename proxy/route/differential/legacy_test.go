package differential

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore/servertest"
)

// startPHP starts PHP's own server, and PHP for servers in front of it; it
// returns the address of the latter. Neither has children, which would outlive it.
func startPHP(t *testing.T, add func(name, addr string)) (fastCGI string) {
	t.Helper()
	// Without a php.ini, as in its container, $_REQUEST has the cookies too.
	script, env := filepath.Join("testdata", "php.php"), append(os.Environ(), "MARK="+mark, "PHP_FCGI_MAX_REQUESTS=0")
	add("php -S", servertest.Run(t, 1, func(addrs []string) *exec.Cmd {
		cmd := exec.Command(servertest.Find(t, "php", "php-cli"), "-d", "request_order=GPC", "-S", addrs[0], script)
		cmd.Env = env
		return cmd
	})[0])
	return servertest.Run(t, 1, func(addrs []string) *exec.Cmd {
		cmd := exec.Command(servertest.Find(t, "php-cgi", "php-cgi"), "-b", addrs[0])
		cmd.Env = env
		return cmd
	})[0]
}

// startApache starts Apache in one process, in front of PHP.
func startApache(t *testing.T, php string, add func(name, addr string)) {
	t.Helper()
	names := []string{"Apache", "Apache with PATH_INFO", "Apache with the path as the query", "Apache with the path in the query"}
	addrs := servertest.Run(t, len(names), func(addrs []string) *exec.Cmd {
		words := []string{"APPLICATION", php, "MODULES", "/usr/lib/apache2/modules"}
		for i, addr := range addrs {
			words = append(words, fmt.Sprintf("ADDRESS%d", i), addr)
		}
		dir, file := configure(t, "apache.conf", words...)
		copyFile(t, filepath.Join("testdata", "php.php"), filepath.Join(dir, "php.php"))
		for _, d := range []string{dir, filepath.Dir(dir)} { // it looks for the script as another user than root
			if err := os.Chmod(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		return exec.Command(servertest.Find(t, "apache2", "apache2-bin"), "-X", "-f", file)
	})
	for i, name := range names {
		add(name, addrs[i])
	}
}

// startJava starts Tomcat and the JDK's server in one process.
func startJava(t *testing.T, add func(name, addr string)) {
	t.Helper()
	var jars []string
	for _, name := range []string{"tomcat9-catalina", "tomcat9-coyote", "tomcat9-util", "tomcat9-util-scan", "tomcat9-juli", "tomcat9-servlet-api",
		"tomcat9-annotations-api", "tomcat9-jaspic-api", "tomcat9-jni", "tomcat9-api", "jackson-core", "jackson-databind", "jackson-annotations"} {
		jars = append(jars, "/usr/share/java/"+name+".jar")
	}
	addrs := ports(t, "it needs Tomcat and Jackson: run make deps, or on Debian apt-get install libtomcat9-java libjackson2-databind-java", nil,
		servertest.Find(t, "java", "default-jdk-headless"), "-XX:TieredStopAtLevel=1", "-cp", strings.Join(jars, ":"), filepath.Join("testdata", "Judge.java"), mark, t.TempDir())
	for i, name := range []string{"Tomcat", "lenient Tomcat", "the JDK's server"} {
		add(name, addrs[i])
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
