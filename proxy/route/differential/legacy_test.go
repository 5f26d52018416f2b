package differential

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// startPHP starts PHP's own server, and PHP for servers in front of it; it
// returns the port of the latter. Neither has children, which would outlive it.
func startPHP(t *testing.T, add func(name, addr string)) (fastCGI string) {
	t.Helper()
	p := freePorts(t, 2)
	// Without a php.ini, as in its container, $_REQUEST has the cookies too.
	script, env := filepath.Join("testdata", "php.php"), []string{"MARK=" + mark}
	start(t, env, nil, program(t, "php", "php-cli"), "-d", "request_order=GPC", "-S", "127.0.0.1:"+p[0], script).untilListens(t, "", p[0])
	add("php -S", "127.0.0.1:"+p[0])
	start(t, append(env, "PHP_FCGI_MAX_REQUESTS=0"), nil, program(t, "php-cgi", "php-cgi"), "-b", "127.0.0.1:"+p[1]).untilListens(t, "", p[1])
	return p[1]
}

// startApache starts Apache in one process, in front of PHP.
func startApache(t *testing.T, php string, add func(name, addr string)) {
	t.Helper()
	p := freePorts(t, 4)
	words := []string{"APPLICATION", php, "MODULES", "/usr/lib/apache2/modules"}
	for i, name := range []string{"Apache", "Apache with PATH_INFO", "Apache with the path as the query", "Apache with the path in the query"} {
		words = append(words, fmt.Sprintf("ADDRESS%d", i), "127.0.0.1:"+p[i])
		add(name, "127.0.0.1:"+p[i])
	}
	dir, file := configure(t, "apache.conf", words...)
	copyFile(t, filepath.Join("testdata", "php.php"), filepath.Join(dir, "php.php"))
	for _, d := range []string{dir, filepath.Dir(dir)} { // it looks for the script as another user than root
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	start(t, nil, nil, program(t, "apache2", "apache2-bin"), "-X", "-f", file).untilListens(t, filepath.Join(dir, "error.log"), p...)
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
		program(t, "java", "default-jdk-headless"), "-XX:TieredStopAtLevel=1", "-cp", strings.Join(jars, ":"), filepath.Join("testdata", "Judge.java"), mark, t.TempDir())
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
