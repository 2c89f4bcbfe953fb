// Tests of frames from C: what arrives, what is dropped and why, null pointers, sizes, and payloads that belong to the
// receiver.

#include "pair.h"

#define MILLISECOND 1000000u

static const uint8_t PAYLOAD[5000] = {7, 6, 5};

static int64_t send_frame(struct pair *p, tack_frame_sender *sender, enum tack_frame_kind kind, uint64_t on) {
    return tack_frame_sender_send(sender, p->client, kind, 0, 0, 10000 * (uint64_t)MILLISECOND, on, PAYLOAD,
                                  sizeof(PAYLOAD));
}

static tack_frame_receiver_event received(tack_frame_receiver *receiver) {
    tack_frame_receiver_event event;
    memset(&event, 0, sizeof(event));
    event.size = sizeof(event);
    CHECK(tack_frame_receiver_next(receiver, &event) == 0 && event.size == sizeof(event));
    return event;
}

static tack_frame_sender_event sent(tack_frame_sender *sender) {
    tack_frame_sender_event event;
    memset(&event, 0, sizeof(event));
    event.size = sizeof(event);
    CHECK(tack_frame_sender_next(sender, &event) == 0 && event.size == sizeof(event));
    return event;
}

static void null_and_impossible_arguments_are_refused(struct pair *p) {
    tack_frame_receiver_event in;
    tack_frame_sender_event out;
    tack_frame_stats stats;
    in.size = sizeof(in);
    out.size = sizeof(out);
    stats.size = sizeof(stats);
    tack_frame_sender_free(NULL);
    tack_frame_receiver_free(NULL);
    CHECK(tack_frame_sender_new(UINT64_MAX) == NULL);
    tack_frame_sender *sender = tack_frame_sender_new(0);
    tack_frame_receiver *receiver = tack_frame_receiver_new();
    CHECK(sender != NULL && receiver != NULL);
    CHECK(send_frame(p, NULL, TACK_FRAME_KEY, TACK_NO_FRAME) == INVALID);
    CHECK(tack_frame_sender_send(sender, NULL, TACK_FRAME_KEY, 0, 0, 1, TACK_NO_FRAME, PAYLOAD, 1) == INVALID);
    CHECK(tack_frame_sender_send(sender, p->client, TACK_FRAME_KEY, 0, 0, 1, TACK_NO_FRAME, NULL, 1) == INVALID);
    CHECK(send_frame(p, sender, TACK_FRAME_UNKNOWN, TACK_NO_FRAME) == INVALID);
    CHECK(send_frame(p, sender, (enum tack_frame_kind)77, TACK_NO_FRAME) == INVALID);
    CHECK(send_frame(p, sender, TACK_FRAME_DELTA, 0) == INVALID); // there is no frame before it
    uint8_t *longest = calloc(1, TACK_MAX_FRAME_LEN + 1);
    CHECK(tack_frame_sender_send(sender, p->client, TACK_FRAME_KEY, 0, 0, 1, TACK_NO_FRAME, longest,
                                 TACK_MAX_FRAME_LEN + 1) == INVALID);
    free(longest);
    CHECK(tack_frame_sender_flush(NULL, p->client) == INVALID && tack_frame_sender_flush(sender, NULL) == INVALID);
    CHECK(tack_frame_sender_set_preamble(NULL, PAYLOAD, 1) == INVALID);
    CHECK(tack_frame_sender_set_preamble(sender, NULL, 1) == INVALID);
    CHECK(tack_frame_sender_next(NULL, &out) == INVALID && tack_frame_sender_next(sender, &out) == TACK_ERR_DONE);
    CHECK(tack_frame_sender_stats(NULL, &stats) == INVALID && tack_frame_sender_stats(sender, NULL) == INVALID);
    CHECK(tack_frame_receiver_read(NULL, p->server) == INVALID);
    CHECK(tack_frame_receiver_read(receiver, NULL) == INVALID);
    CHECK(tack_frame_receiver_next(NULL, &in) == INVALID);
    CHECK(tack_frame_receiver_next(receiver, &in) == TACK_ERR_DONE);
    tack_frame_sender_free(sender);
    tack_frame_receiver_free(receiver);
}

static void frames_arrive_as_they_were_sent(struct pair *p) {
    tack_frame_sender *sender = tack_frame_sender_new(0);
    tack_frame_receiver *receiver = tack_frame_receiver_new();
    CHECK(send_frame(p, sender, TACK_FRAME_KEY, TACK_NO_FRAME) == 0);
    talk(p, false);
    CHECK(tack_frame_sender_send(sender, p->client, TACK_FRAME_DELTA, 2, MILLISECOND, TACK_NO_DEADLINE, 0, NULL,
                                 0) == 1);
    talk(p, false);
    for (uint64_t number = 0; number < 2; number++) {
        tack_frame_sender_event event = sent(sender);
        CHECK(event.event_type == TACK_FRAME_SENDER_EVENT_TAKEN && event.number == number);
    }
    CHECK(tack_frame_receiver_read(receiver, p->server) == 0);
    tack_frame_receiver_event event;
    event.size = 4; // less than the field itself
    CHECK(tack_frame_receiver_next(receiver, &event) == TACK_ERR_BUFFER_TOO_SHORT);
    CHECK(tack_frame_receiver_next(receiver, NULL) == INVALID);
    // What could not be told is not lost.
    event = received(receiver);
    CHECK(event.event_type == TACK_FRAME_RECEIVER_EVENT_FRAME && event.kind == TACK_FRAME_KEY);
    CHECK(event.number == 0 && event.depends_on == TACK_NO_FRAME && event.layer == 0);
    CHECK(event.payload_len == sizeof(PAYLOAD) && memcmp(event.payload, PAYLOAD, sizeof(PAYLOAD)) == 0);
    CHECK(event.age != TACK_UNKNOWN && event.lifetime == 10000 * (uint64_t)MILLISECOND);
    event = received(receiver);
    CHECK(event.number == 1 && event.depends_on == 0 && event.kind == TACK_FRAME_DELTA && event.layer == 2);
    CHECK(event.payload == NULL && event.payload_len == 0);
    CHECK(tack_frame_receiver_next(receiver, &event) == TACK_ERR_DONE);
    tack_frame_stats stats;
    stats.size = 1;
    CHECK(tack_frame_sender_stats(sender, &stats) == TACK_ERR_BUFFER_TOO_SHORT);
    stats.size = sizeof(stats);
    CHECK(tack_frame_sender_stats(sender, &stats) == 0 && stats.size == sizeof(stats));
    CHECK(stats.waiting == 0 && stats.waiting_bytes == 0 && stats.never_begun == 0);
    tack_frame_sender_free(sender);
    tack_frame_receiver_free(receiver);
}

static void what_is_late_is_dropped_with_all_that_depends_on_it(struct pair *p) {
    // Two streams are used up.
    tack_frame_sender *sender = tack_frame_sender_new(2);
    tack_frame_sender_event event;
    event.size = 0;
    CHECK(tack_frame_sender_send(sender, p->client, TACK_FRAME_KEY, 0, MILLISECOND, 0, TACK_NO_FRAME, PAYLOAD, 9) == 0);
    CHECK(send_frame(p, sender, TACK_FRAME_DELTA, 0) == 1);
    CHECK(tack_frame_sender_flush(sender, p->client) == 0);
    CHECK(tack_frame_sender_next(sender, &event) == TACK_ERR_BUFFER_TOO_SHORT);
    event = sent(sender);
    CHECK(event.event_type == TACK_FRAME_SENDER_EVENT_DROPPED && event.cause == TACK_FRAME_DROP_LATE);
    CHECK(event.number == 0);
    event = sent(sender);
    CHECK(event.event_type == TACK_FRAME_SENDER_EVENT_DROPPED && event.cause == TACK_FRAME_DROP_DEPENDENCY);
    CHECK(event.number == 1);
    tack_frame_stats stats;
    stats.size = sizeof(stats);
    CHECK(tack_frame_sender_stats(sender, &stats) == 0 && stats.never_begun == 2);
    tack_frame_sender_free(sender);
}

static void a_stream_that_holds_no_frame_is_malformed(struct pair *p) {
    tack_frame_receiver *receiver = tack_frame_receiver_new();
    uint64_t code;
    CHECK(tack_conn_stream_send(p->client, 10, (const uint8_t *)"\x09what", 5, true, &code) == 5);
    talk(p, false);
    CHECK(tack_frame_receiver_read(receiver, p->server) == 0);
    tack_frame_receiver_event event = received(receiver);
    CHECK(event.event_type == TACK_FRAME_RECEIVER_EVENT_MALFORMED && event.stream_id == 10);
    CHECK(event.error == TACK_FRAME_ERROR_VERSION && event.kind == TACK_FRAME_UNKNOWN);
    CHECK(event.number == TACK_NO_FRAME && event.payload == NULL && event.age == TACK_UNKNOWN);
    tack_frame_receiver_free(receiver);
}

static void a_reset_stream_is_a_frame_that_is_lost(struct pair *p) {
    // Three streams are used up.
    tack_frame_sender *sender = tack_frame_sender_new(3);
    tack_frame_receiver *receiver = tack_frame_receiver_new();
    CHECK(send_frame(p, sender, TACK_FRAME_AUDIO, TACK_NO_FRAME) == 0);
    CHECK(tack_conn_stream_shutdown(p->client, 14, TACK_SHUTDOWN_WRITE, 2) == 0);
    talk(p, false);
    CHECK(tack_frame_receiver_read(receiver, p->server) == 0);
    tack_frame_receiver_event event = received(receiver);
    CHECK(event.event_type == TACK_FRAME_RECEIVER_EVENT_LOST && event.payload == NULL);
    tack_frame_sender_free(sender);
    // What it has not handed out goes with the receiver.
    tack_frame_receiver_free(receiver);
}

static void a_frame_for_which_there_is_no_room_is_refused_and_has_no_number(struct pair *p) {
    tack_frame_sender *sender = tack_frame_sender_new(4);
    int64_t number, given = 0;
    while ((number = tack_frame_sender_send(sender, p->client, TACK_FRAME_KEY, 0, 0, TACK_NO_DEADLINE, TACK_NO_FRAME,
                                            PAYLOAD, 1)) >= 0) {
        CHECK(number == given++ && given < 1000);
    }
    CHECK(number == TACK_ERR_DONE);
    tack_frame_stats stats;
    stats.size = sizeof(stats);
    CHECK(tack_frame_sender_stats(sender, &stats) == 0 && stats.waiting == 512 && stats.never_begun == 0);
    tack_frame_sender_free(sender);
}

static void nothing_is_sent_over_a_connection_that_is_over(struct pair *p) {
    tack_frame_sender *sender = tack_frame_sender_new(3);
    CHECK(tack_conn_close(p->client, true, 0, NULL, 0) == 0);
    talk(p, false);
    CHECK(send_frame(p, sender, TACK_FRAME_KEY, TACK_NO_FRAME) == TACK_ERR_INVALID_STATE);
    CHECK(tack_frame_sender_flush(sender, p->client) == TACK_ERR_INVALID_STATE);
    tack_frame_sender_free(sender);
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    struct pair p;
    begin(&p, argv[1], argv[2], TACK_PROFILE_VIDEO);
    talk(&p, false);
    CHECK(tack_conn_is_established(p.client) && tack_conn_is_tack(p.client));
    null_and_impossible_arguments_are_refused(&p);
    frames_arrive_as_they_were_sent(&p);
    what_is_late_is_dropped_with_all_that_depends_on_it(&p);
    a_stream_that_holds_no_frame_is_malformed(&p);
    a_reset_stream_is_a_frame_that_is_lost(&p);
    a_frame_for_which_there_is_no_room_is_refused_and_has_no_number(&p);
    nothing_is_sent_over_a_connection_that_is_over(&p);
    end(&p);
    printf("all is well\n");
    return 0;
}
