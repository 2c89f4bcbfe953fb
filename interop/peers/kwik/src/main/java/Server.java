import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.net.DatagramSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import tech.kwik.core.QuicConnection;
import tech.kwik.core.QuicStream;
import tech.kwik.core.log.SysOutLogger;
import tech.kwik.core.server.ApplicationProtocolConnection;
import tech.kwik.core.server.ApplicationProtocolConnectionFactory;
import tech.kwik.core.server.ServerConnectionConfig;
import tech.kwik.core.server.ServerConnectionConfig.RetryRequired;
import tech.kwik.core.server.ServerConnector;
import tech.kwik.flupke.server.Http3ApplicationProtocolFactory;
import tech.kwik.flupke.server.HttpServerRequest;
import tech.kwik.flupke.server.HttpServerResponse;

/** Answers until it is ended. */
final class Server {
    private static final char[] PASSWORD = "of no use outside this process".toCharArray();
    private static final int STREAMS = 100;

    static void run() throws Exception {
        DatagramSocket socket = new DatagramSocket(Environment.address());
        SysOutLogger logger = new SysOutLogger();
        logger.logWarning(true);
        boolean retry = List.of("retry", "retry-resumption").contains(Environment.variable("TESTCASE"));
        ServerConnectionConfig config = ServerConnectionConfig.builder()
                .maxIdleTimeoutInSeconds(30)
                .maxConnectionBufferSize(Environment.WINDOW)
                .maxBidirectionalStreamBufferSize(Environment.WINDOW)
                .maxUnidirectionalStreamBufferSize(Environment.WINDOW)
                .maxOpenPeerInitiatedBidirectionalStreams(STREAMS)
                .maxOpenPeerInitiatedUnidirectionalStreams(STREAMS)
                .retryRequired(retry ? RetryRequired.Always : RetryRequired.Never)
                .build();
        ServerConnector connector = ServerConnector.builder()
                .withSocket(socket)
                .withKeyStore(identity(), "server", PASSWORD, "secp256r1")
                .withConfiguration(config)
                .withLogger(logger)
                .build();
        connector.registerApplicationProtocol(
                Environment.protocol(),
                Environment.protocol().equals(Environment.HTTP3)
                        ? new Http3ApplicationProtocolFactory(Server::http3)
                        : new Hq());
        connector.start();
        Client.warmUp(socket.getLocalPort());
        System.out.println("ready " + Environment.variable("ADDRESS").replaceFirst(
                ":\\d+$", ":" + socket.getLocalPort()));
    }

    /** The certificate chain and the key, which Java wants together. */
    private static KeyStore identity() throws Exception {
        Path chain = Path.of(Environment.variable("CERTIFICATE"));
        String key = Files.readString(Path.of(Environment.variable("KEY")));
        byte[] der = Base64.getMimeDecoder().decode(key.replaceAll("-----[^-]+-----", ""));
        PrivateKey secret = KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(der));
        Certificate[] certificates = CertificateFactory.getInstance("X.509")
                .generateCertificates(new ByteArrayInputStream(Files.readAllBytes(chain)))
                .toArray(Certificate[]::new);
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, PASSWORD);
        store.setKeyEntry("server", secret, PASSWORD, certificates);
        return store;
    }

    private static byte[] answer(String method, String name, byte[] body) throws IOException {
        switch (method) {
            case "GET":
                return Files.readAllBytes(Environment.inside("FILES", name));
            case "PUT":
                Files.write(Environment.inside("RECEIVED", name), body);
                return new byte[0];
            default:
                throw new IOException("not a request: " + method);
        }
    }

    private static void http3(HttpServerRequest request, HttpServerResponse response)
            throws IOException {
        try {
            byte[] body = request.body().readAllBytes();
            byte[] answer = answer(request.method(), request.path().substring(1), body);
            response.setStatus(200);
            if (answer.length > 0) {
                response.getOutputStream().write(answer);
            }
        } catch (NoSuchFileException | IllegalArgumentException error) {
            response.setStatus(404);
        }
        response.getOutputStream().close();
    }

    /** hq-interop, with a thread for each stream. */
    private static final class Hq implements ApplicationProtocolConnectionFactory {
        private final ExecutorService threads = Executors.newCachedThreadPool();

        @Override
        public ApplicationProtocolConnection createConnection(
                String protocol, QuicConnection connection) {
            return new ApplicationProtocolConnection() {
                @Override
                public void acceptPeerInitiatedStream(QuicStream stream) {
                    threads.execute(() -> {
                        try {
                            serve(stream);
                        } catch (IOException | RuntimeException error) {
                            System.err.println(error);
                            stream.resetStream(1);
                        }
                    });
                }
            };
        }

        @Override
        public int maxConcurrentPeerInitiatedBidirectionalStreams() {
            return STREAMS;
        }

        @Override
        public long maxBidirectionalStreamReceiverBufferSize() {
            return Environment.WINDOW;
        }

        private static void serve(QuicStream stream) throws IOException {
            byte[] request = stream.getInputStream().readAllBytes();
            int end = 0;
            while (end < request.length && request[end] != '\n') {
                end++;
            }
            String line = new String(request, 0, end, StandardCharsets.UTF_8).strip();
            int slash = line.indexOf(" /");
            if (slash < 0 || end == request.length) {
                throw new IOException("not a request: " + line);
            }
            byte[] body = Arrays.copyOfRange(request, end + 1, request.length);
            byte[] answer = answer(line.substring(0, slash), line.substring(slash + 2), body);
            Environment.send(stream, answer);
        }
    }

    private Server() {}
}
