import java.util.Set;

/** kwik as a peer of tack-interop: hq-interop and HTTP/3 in both roles. docs/interop.md has the contract. */
public final class Main {
    /** What the contract says to exit with where a test case is not known. */
    private static final int UNSUPPORTED = 127;
    private static final Set<String> TEST_CASES = Set.of(
            "handshake", "transfer", "chacha20", "multiplexing", "retry", "retry-resumption",
            "resumption", "zerortt", "keyupdate", "http3", "transferloss", "ackfrequency",
            "immediateack", "tack", "greased", "noannounce");

    public static void main(String[] arguments) throws Exception {
        if (!TEST_CASES.contains(Environment.variable("TESTCASE"))) {
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
}
