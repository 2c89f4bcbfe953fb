import java.io.IOException;
import java.io.OutputStream;
import java.util.Set;

/** kwik as a peer of tack-interop: hq-interop and HTTP/3 in both roles. docs/interop.md has the contract. */
public final class Main {
    /** What the contract says to exit with where a test case is not known, after a line that says so. */
    private static final int UNSUPPORTED = 127;
    private static final Set<String> TEST_CASES = Set.of(
            "handshake", "transfer", "chacha20", "multiplexing", "retry", "retry-resumption",
            "resumption", "zerortt", "keyupdate", "http3", "transferloss", "ackfrequency",
            "immediateack", "tack", "greased", "noannounce");

    public static void main(String[] arguments) {
        try {
            endWithTheRunner();
            play();
        } catch (Throwable error) {
            // Threads that are left would keep the program from ending.
            error.printStackTrace();
            System.exit(1);
        }
    }

    private static void play() throws Exception {
        if (!TEST_CASES.contains(Environment.variable("TESTCASE"))) {
            System.out.println("unsupported");
            System.exit(UNSUPPORTED);
        }
        // Otherwise its server gives up a client whose first Initial is lost and second is short.
        System.setProperty("tech.kwik.core.min-crypto-data-check", "disabled");
        switch (Environment.variable("ROLE")) {
            case "client" -> Client.run();
            case "server" -> Server.run();
            default -> throw new IllegalArgumentException(
                    "TACK_INTEROP_ROLE is neither client nor server");
        }
    }

    /** Ends this program once the runner, which holds the other end of its standard input, is gone. */
    private static void endWithTheRunner() {
        Thread watch = new Thread(() -> {
            try {
                System.in.transferTo(OutputStream.nullOutputStream());
            } catch (IOException error) {
                System.err.println(error);
            }
            Runtime.getRuntime().halt(1);
        });
        watch.setDaemon(true);
        watch.start();
    }
}
