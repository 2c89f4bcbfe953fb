import java.io.IOException;
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
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import tech.kwik.agent15.TlsConstants.CipherSuite;
import tech.kwik.core.QuicClientConnection;
import tech.kwik.core.QuicClientConnection.StreamEarlyData;
import tech.kwik.core.QuicSessionTicket;
import tech.kwik.core.QuicStream;
import tech.kwik.core.impl.QuicClientConnectionImpl;
import tech.kwik.core.log.SysOutLogger;
import tech.kwik.flupke.Http3SingleConnectionClient;

/**
 * Makes all requests at once, each on a stream of its own. Where a session is to be resumed, the
 * first request is made on a connection before.
 */
final class Client {
    private static final Duration PATIENCE = Duration.ofSeconds(30);
    private static final Duration TURN = Duration.ofMillis(10);
    /** After the first request, and long before the last answer. */
    private static final Duration KEY_UPDATE = Duration.ofMillis(200);

    /** Makes a request in the words of the application protocol, and returns the answer. */
    private interface Asking {
        byte[] ask(Request request) throws Exception;
    }

    private record Request(String method, String name, byte[] body) {
        static Request of(String text) throws IOException {
            String[] words = text.split(" ");
            boolean put = words[0].equals("PUT");
            byte[] body =
                    put ? Files.readAllBytes(Environment.inside("FILES", words[1])) : new byte[0];
            return new Request(words[0], words[1], body);
        }

        /** As it is written in hq-interop. */
        byte[] written() {
            byte[] line = (method + " /" + name + "\r\n").getBytes(StandardCharsets.UTF_8);
            byte[] all = Arrays.copyOf(line, line.length + body.length);
            System.arraycopy(body, 0, all, line.length, body.length);
            return all;
        }

        void keep(byte[] answer) throws IOException {
            if (method.equals("GET")) {
                Files.write(Environment.inside("RECEIVED", name), answer);
            }
        }
    }

    static void run() throws Exception {
        List<Request> requests = new ArrayList<>();
        for (String text : Environment.variable("REQUESTS").split(",")) {
            requests.add(Request.of(text));
        }
        switch (Environment.variable("TESTCASE")) {
            case "resumption", "retry-resumption" -> {
                QuicSessionTicket ticket = ticket(requests.remove(0));
                askAll(connected(connection().sessionTicket(ticket)), requests);
            }
            case "zerortt" -> askEarly(ticket(requests.remove(0)), requests);
            case "chacha20" -> askAll(
                    connected(connection().cipherSuite(CipherSuite.TLS_CHACHA20_POLY1305_SHA256)),
                    requests);
            case "keyupdate" -> {
                QuicClientConnection connection = connected(connection());
                // Not before an acknowledgement under the first keys: RFC 9001 section 6.1.
                scheduled(() -> ((QuicClientConnectionImpl) connection).updateKeys());
                askAll(connection, requests);
            }
            default -> askAll(connected(connection()), requests);
        }
        System.exit(0); // whatever threads are left
    }

    /**
     * Connects to the server in this process, and closes. The first handshake of a Java machine
     * takes a second, which nothing else that is measured here does.
     */
    static void warmUp(int port) throws IOException {
        InetSocketAddress here = new InetSocketAddress(Environment.address().getAddress(), port);
        QuicClientConnection connection = builder(here).build();
        connection.connect();
        connection.close();
    }

    private static QuicClientConnection.Builder connection() throws IOException {
        QuicClientConnection.Builder builder = builder(Environment.address());
        if (System.getenv("SSLKEYLOGFILE") != null) {
            builder.secrets(Path.of(System.getenv("SSLKEYLOGFILE")));
        }
        return builder;
    }

    private static QuicClientConnection.Builder builder(InetSocketAddress server) {
        SysOutLogger logger = new SysOutLogger();
        logger.logWarning(true);
        return QuicClientConnection.newBuilder()
                .host("localhost")
                // What "localhost" is does not matter: the relay is there.
                .proxy(server.getAddress().getHostAddress())
                .port(server.getPort())
                .applicationProtocol(Environment.protocol())
                .defaultStreamReceiveBufferSize(Environment.WINDOW)
                .connectTimeout(PATIENCE)
                .maxIdleTimeout(PATIENCE)
                .logger(logger)
                .noServerCertificateCheck(); // trust is not under test
    }

    private static QuicClientConnection connected(QuicClientConnection.Builder builder)
            throws IOException {
        QuicClientConnection connection = builder.build();
        connection.connect();
        return connection;
    }

    /** Makes a request on a connection of its own, and returns what is needed to resume that. */
    private static QuicSessionTicket ticket(Request request) throws Exception {
        QuicClientConnection connection = connected(connection());
        request.keep(asking(connection).ask(request));
        Instant start = Instant.now();
        while (connection.getNewSessionTickets().isEmpty()) {
            if (start.plus(PATIENCE).isBefore(Instant.now())) {
                throw new IOException("the server sent no session ticket");
            }
            Thread.sleep(TURN.toMillis());
        }
        connection.closeAndWait();
        return connection.getNewSessionTickets().get(0);
    }

    private static void askAll(QuicClientConnection connection, List<Request> requests)
            throws Exception {
        Asking asking = asking(connection);
        ExecutorService threads = Executors.newCachedThreadPool();
        List<Future<Void>> running = new ArrayList<>();
        for (Request request : requests) {
            running.add(threads.submit(() -> {
                request.keep(asking.ask(request));
                return null;
            }));
        }
        for (Future<Void> one : running) {
            one.get();
        }
        connection.closeAndWait();
    }

    /** Of hq-interop alone. */
    private static void askEarly(QuicSessionTicket ticket, List<Request> requests)
            throws IOException {
        QuicClientConnection connection = connection().sessionTicket(ticket).build();
        List<QuicStream> streams = connection.connect(requests.stream()
                .map(request -> new StreamEarlyData(request.written(), true))
                .toList());
        for (int at = 0; at < requests.size(); at++) {
            requests.get(at).keep(streams.get(at).getInputStream().readAllBytes());
        }
        connection.closeAndWait();
    }

    private static void scheduled(Runnable action) {
        Executors.newSingleThreadScheduledExecutor()
                .schedule(action, KEY_UPDATE.toMillis(), TimeUnit.MILLISECONDS);
    }

    private static Asking asking(QuicClientConnection connection) {
        return Environment.protocol().equals(Environment.HTTP3)
                ? http3(connection)
                : request -> hq(connection, request);
    }

    private static byte[] hq(QuicClientConnection connection, Request request)
            throws IOException {
        QuicStream stream = connection.createStream(true);
        Environment.send(stream, request.written());
        return stream.getInputStream().readAllBytes();
    }

    private static Asking http3(QuicClientConnection connection) {
        HttpClient client =
                new Http3SingleConnectionClient(connection, PATIENCE, Environment.WINDOW);
        return request -> {
            var publisher = request.method().equals("PUT")
                    ? BodyPublishers.ofByteArray(request.body())
                    : BodyPublishers.noBody();
            URI uri = URI.create("https://localhost/" + request.name());
            var asked = HttpRequest.newBuilder(uri).method(request.method(), publisher).build();
            var answer = client.send(asked, BodyHandlers.ofByteArray());
            if (answer.statusCode() != 200) {
                throw new IOException(
                        request.name() + " was answered with status " + answer.statusCode());
            }
            return answer.body();
        };
    }

    private Client() {}
}
