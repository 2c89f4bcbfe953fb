// A program that uses OpenSSL beside tacklib, which has BoringSSL inside: each must get its own functions. Run with a
// certificate, its key, and a folder.

#include "pair.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>

static void openssl_is_openssl(void) {
    CHECK(strncmp(OpenSSL_version(OPENSSL_VERSION), "OpenSSL ", 8) == 0);
    CHECK(OpenSSL_version_num() == OPENSSL_VERSION_NUMBER || OPENSSL_version_major() == OPENSSL_VERSION_MAJOR);
}

static void openssl_has_its_digests(void) {
    // FIPS 180: SHA-256 of "abc".
    static const uint8_t begin[4] = {0xba, 0x78, 0x16, 0xbf};
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    CHECK(context != NULL);
    CHECK(EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1);
    CHECK(EVP_DigestUpdate(context, "abc", 3) == 1);
    CHECK(EVP_DigestFinal_ex(context, digest, &len) == 1);
    CHECK(len == 32 && memcmp(digest, begin, sizeof(begin)) == 0);
    EVP_MD_CTX_free(context);
}

// Both ends of a TLS connection of OpenSSL, in memory.
static void openssl_shakes_hands(const char *certificate, const char *key) {
    SSL_CTX *client_context = SSL_CTX_new(TLS_client_method()), *server_context = SSL_CTX_new(TLS_server_method());
    CHECK(client_context != NULL && server_context != NULL);
    CHECK(SSL_CTX_use_certificate_chain_file(server_context, certificate) == 1);
    CHECK(SSL_CTX_use_PrivateKey_file(server_context, key, SSL_FILETYPE_PEM) == 1);
    CHECK(SSL_CTX_load_verify_locations(client_context, certificate, NULL) == 1);
    SSL_CTX_set_verify(client_context, SSL_VERIFY_PEER, NULL);
    SSL *client = SSL_new(client_context), *server = SSL_new(server_context);
    BIO *at_client, *at_server;
    CHECK(client != NULL && server != NULL && BIO_new_bio_pair(&at_client, 0, &at_server, 0) == 1);
    SSL_set_bio(client, at_client, at_client);
    SSL_set_bio(server, at_server, at_server);
    SSL_set_connect_state(client);
    SSL_set_accept_state(server);
    int is_done = 0;
    for (int round = 0; round < 20 && !is_done; round++) {
        is_done = SSL_do_handshake(client) == 1;
        is_done &= SSL_do_handshake(server) == 1;
    }
    CHECK(is_done);
    char read[8];
    CHECK(SSL_write(client, "hello", 5) == 5 && SSL_read(server, read, sizeof(read)) == 5);
    SSL_free(client);
    SSL_free(server);
    SSL_CTX_free(client_context);
    SSL_CTX_free(server_context);
}

static void tacklib_shakes_hands(const char *certificate, const char *key) {
    struct pair p;
    begin(&p, certificate, key, TACK_PROFILE_DEFAULT);
    talk(&p, false);
    CHECK(tack_conn_is_established(p.client) && tack_conn_is_established(p.server));
    CHECK(tack_conn_is_tack(p.client));
    end(&p);
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    // In turns, so that neither lives on what the other one has set up.
    for (int turn = 0; turn < 2; turn++) {
        openssl_is_openssl();
        tacklib_shakes_hands(argv[1], argv[2]);
        openssl_has_its_digests();
        openssl_shakes_hands(argv[1], argv[2]);
    }
    puts("all is well");
    return 0;
}
