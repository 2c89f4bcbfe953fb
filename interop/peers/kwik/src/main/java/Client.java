import java.io.IOException;
import java.net.Inet6Address;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import tech.kwik.core.QuicClientConnection;
import tech.kwik.core.QuicStream;
import tech.kwik.core.log.SysOutLogger;
import tech.kwik.flupke.Http3SingleConnectionClient;

/** Makes all requests at once. */
final class Client {
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    /** Makes a request in the words of the application protocol, and returns the answer. */
    private interface Asking {
        byte[] ask(String method, String name, byte[] body) throws Exception;
    }

    static void run() throws Exception {
        QuicClientConnection connection = connection();
        connection.connect();
        Asking asking = Environment.protocol().equals(Environment.HTTP3)
                ? http3(connection)
                : (method, name, body) -> hq(connection, method, name, body);
        askAll(asking);
        connection.closeAndWait();
        System.exit(0); // whatever threads are left
    }

    private static QuicClientConnection connection() throws IOException {
        InetSocketAddress server = Environment.address();
        SysOutLogger logger = new SysOutLogger();
        logger.logWarning(true);
        QuicClientConnection.Builder builder = QuicClientConnection.newBuilder()
                .host("localhost")
                .port(server.getPort())
                .applicationProtocol(Environment.protocol())
                .defaultStreamReceiveBufferSize(Environment.WINDOW)
                .connectTimeout(PATIENCE)
                .maxIdleTimeout(PATIENCE)
                .logger(logger)
                .noServerCertificateCheck(); // what is tested is not whom to trust
        if (server.getAddress() instanceof Inet6Address) {
            builder.preferIPv6();
        } else {
            builder.preferIPv4();
        }
        if (System.getenv("SSLKEYLOGFILE") != null) {
            builder.secrets(Path.of(System.getenv("SSLKEYLOGFILE")));
        }
        return builder.build();
    }

    private static void askAll(Asking asking) throws Exception {
        ExecutorService threads = Executors.newCachedThreadPool();
        List<Future<Void>> running = new ArrayList<>();
        for (String request : Environment.variable("REQUESTS").split(",")) {
            String[] words = request.split(" ");
            running.add(threads.submit(() -> {
                String method = words[0];
                String name = words[1];
                byte[] body = method.equals("PUT")
                        ? Files.readAllBytes(Environment.inside("FILES", name))
                        : new byte[0];
                byte[] answer = asking.ask(method, name, body);
                if (method.equals("GET")) {
                    Files.write(Environment.inside("RECEIVED", name), answer);
                }
                return null;
            }));
        }
        for (Future<Void> one : running) {
            one.get();
        }
    }

    private static byte[] hq(
            QuicClientConnection connection, String method, String name, byte[] body)
            throws IOException {
        QuicStream stream = connection.createStream(true);
        byte[] line = (method + " /" + name + "\r\n").getBytes(StandardCharsets.UTF_8);
        byte[] request = Arrays.copyOf(line, line.length + body.length);
        System.arraycopy(body, 0, request, line.length, body.length);
        Environment.send(stream, request);
        return stream.getInputStream().readAllBytes();
    }

    private static Asking http3(QuicClientConnection connection) {
        HttpClient client =
                new Http3SingleConnectionClient(connection, PATIENCE, Environment.WINDOW);
        return (method, name, body) -> {
            var publisher = method.equals("PUT")
                    ? BodyPublishers.ofByteArray(body)
                    : BodyPublishers.noBody();
            HttpRequest request = HttpRequest.newBuilder(URI.create("https://localhost/" + name))
                    .method(method, publisher)
                    .build();
            var answer = client.send(request, BodyHandlers.ofByteArray());
            if (answer.statusCode() != 200) {
                throw new IOException(name + " was answered with status " + answer.statusCode());
            }
            return answer.body();
        };
    }

    private Client() {}
}
