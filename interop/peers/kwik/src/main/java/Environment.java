import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.nio.file.Path;
import java.util.Optional;
import tech.kwik.core.QuicStream;

/** What the environment says. */
final class Environment {
    static final String HTTP3 = "h3";
    /** More than any test case sends at once, so that flow control is not what is measured. */
    static final long WINDOW = 8 << 20;
    /**
     * What is written to a stream at once, bytes. A write of kwik's whose thread is interrupted between asking for a
     * packet and counting that it has asked keeps its sender from asking again; the next write asks anew, if there is
     * one before the buffer is full.
     */
    private static final int PIECE = 1024;

    static String variable(String name) {
        String value = System.getenv("TACK_INTEROP_" + name);
        if (value == null) {
            throw new IllegalArgumentException("TACK_INTEROP_" + name + " is not set");
        }
        return value;
    }

    static String protocol() {
        return Optional.ofNullable(System.getenv("TACK_INTEROP_PROTOCOL")).orElse("hq-interop");
    }

    static InetSocketAddress address() throws UnknownHostException {
        String text = variable("ADDRESS");
        int colon = text.lastIndexOf(':');
        // An IPv6 address is in brackets, which Java takes as well.
        InetAddress host = InetAddress.getByName(text.substring(0, colon));
        return new InetSocketAddress(host, Integer.parseInt(text.substring(colon + 1)));
    }

    /** A file of that name in the directory that a variable names. */
    static Path inside(String directory, String name) {
        if (name.isEmpty() || name.startsWith(".") || name.contains("/")) {
            throw new IllegalArgumentException("not a file name: " + name);
        }
        return Path.of(variable(directory), name);
    }

    /** Sends everything there is to send on a stream. */
    static void send(QuicStream stream, byte[] bytes) throws IOException {
        // No piece of nothing: kwik does not get past it, and would never send what comes after it.
        for (int offset = 0; offset < bytes.length; offset += PIECE) {
            stream.getOutputStream().write(bytes, offset, Math.min(PIECE, bytes.length - offset));
        }
        stream.getOutputStream().close();
    }

    private Environment() {}
}
