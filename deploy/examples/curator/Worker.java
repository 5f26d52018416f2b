import java.io.BufferedInputStream;
import java.io.FileInputStream;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.data.Stat;

/**
 * Writes FILE to URL under a ZooKeeper lock, with Curator.
 *
 *   java -cp CURATOR_AND_ZOOKEEPER Worker.java 127.0.0.1:2181 LOCK URL FILE
 *
 * The token is the czxid of the lock's node: the number of the transaction that
 * made it, which ZooKeeper counts up for all nodes.
 *
 * Traps:
 *   - InterProcessMutex is re-entrant in its thread: the second acquire() makes no
 *     node, so there is no second token, and the lock is held until the second release().
 *   - The number at the end of the node's name is not the token. It counts the
 *     changes of one parent in 32 bits; and Curator makes that parent a container, which
 *     ZooKeeper takes away when it is empty: the next one begins at 0.
 *   - getParticipantNodes() shows whoever holds the lock now. The node that is
 *     yours is getLockPath() of the acquiring thread.
 *   - After ConnectionState.LOST, isAcquiredInThisProcess() is still true.
 *   - zkCli.sh prints czxid in hex; this sends it in decimal, and the rule's
 *     format says so.
 */
public class Worker {
    /** A mutex that tells its node. */
    static final class NamedMutex extends InterProcessMutex {
        NamedMutex(CuratorFramework client, String path) {
            super(client, path);
        }

        String node() {
            return getLockPath(); // of this thread; protected, hence the class
        }
    }

    public static void main(String[] args) throws Exception {
        if (args.length != 4) {
            System.err.println("usage: Worker SERVERS LOCK URL FILE");
            System.exit(2);
        }
        int code;
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], 10_000, 10_000, new ExponentialBackoffRetry(200, 5))) {
            client.start();
            NamedMutex lock = new NamedMutex(client, "/locks/" + args[1]);
            lock.acquire();
            try {
                Stat stat = client.checkExists().forPath(lock.node());
                if (stat == null) {
                    throw new IllegalStateException("the lock is lost already");
                }
                String token = Long.toUnsignedString(stat.getCzxid());
                System.err.println("token " + token);
                byte[] body;
                try (InputStream in = new BufferedInputStream(new FileInputStream(args[3]))) {
                    body = in.readAllBytes(); // the work
                }
                code = write(args[2], token, body);
            } finally {
                try {
                    lock.release();
                } catch (Exception e) {
                    System.err.println("not released: " + e); // it was lost
                }
            }
        }
        System.exit(code);
    }

    /** Repeats a write only where it was not forwarded. */
    static int write(String url, String token, byte[] body) throws Exception {
        HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        HttpRequest request = HttpRequest.newBuilder(URI.create(url)).timeout(Duration.ofSeconds(120))
            .header("X-Fencing-Token", token).PUT(HttpRequest.BodyPublishers.ofByteArray(body)).build();
        for (int attempt = 1; attempt <= 5; attempt++) {
            HttpResponse<String> answer = client.send(request, HttpResponse.BodyHandlers.ofString());
            if (answer.statusCode() < 300) {
                return 0;
            }
            // What the proxy says; the API may answer 409, too.
            String result = answer.headers().firstValue("Fencing-Result").orElse("");
            String forwarded = answer.headers().firstValue("Fencing-Forwarded").orElse("");
            if (result.equals("rejected;reason=stale-token")) {
                System.err.println("lost the lease: " + answer.body()); // stop; take the lock again before the next write
                return 4;
            }
            if (forwarded.equals("unknown")) {
                System.err.println("it may have happened, look before you repeat it: " + answer.body());
                return 5;
            }
            if (answer.statusCode() != 503 || !forwarded.equals("no")) {
                System.err.println("refused: " + answer.statusCode() + " " + answer.body());
                return 1;
            }
            Thread.sleep(1000L * attempt); // not forwarded: the same token may come again
        }
        System.err.println("not forwarded, for too long");
        return 1;
    }
}
