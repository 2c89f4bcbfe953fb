// A program with two libraries in Rust. Run with a certificate, its key, and a folder.

#include "pair.h"

int other_answer(void);

int main(int argc, char **argv) {
    CHECK(argc == 4);
    CHECK(other_answer() == 42);
    struct pair p;
    begin(&p, argv[1], argv[2], TACK_PROFILE_DEFAULT);
    talk(&p, false);
    CHECK(tack_conn_is_established(p.client) && tack_conn_is_established(p.server));
    end(&p);
    CHECK(other_answer() == 42);
    puts("all is well");
    return 0;
}
