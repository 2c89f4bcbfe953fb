// tacklib for C and C++: QUIC connections with TACK inside, by quiche's interface.
//
// Made from the sources of tack-ffi; changes belong there.
//
// A function that can fail returns a negative number (enum tack_error, enum tack_h3_error), NULL or false. One
// that is given NULL where an object or a place for a result has to be returns TACK_ERR_INVALID_ARGUMENT, NULL,
// false, 0 or nothing, and has no effect. A pointer with a length may be NULL if the length is 0.
//
// Memory that a function writes must not overlap other memory that it is given: each result, and each length, has a
// place of its own.
//
// What a function returns as a pointer that is not const, the program frees with the function named ..._free.
// Pointers that are written to `out` belong to the object: they are good until the next function that takes the
// object and is not const, or frees it.
//
// Objects have no locks: one thread at a time may use a connection, or a configuration. Callbacks run within the call
// and must not use the object that the call was given, nor throw.
//
// If the library finds a fault in itself it writes what it was to standard error, and aborts.

#ifndef TACKLIB_H
#define TACKLIB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

// HTTP/3 as tack_config_set_application_protos takes it.
#define TACK_H3_APPLICATION_PROTOCOL "\x02h3"

// A time that is not known.
#define TACK_UNKNOWN UINT64_MAX

// For tack_conn_set_stream_deadline and tack_frame_sender_send: there is no deadline.
#define TACK_NO_DEADLINE UINT64_MAX

// In the place of the number of a frame: there is none.
#define TACK_NO_FRAME UINT64_MAX

typedef struct tack_config tack_config;
typedef struct tack_conn tack_conn;
typedef struct tack_connection_id_iter tack_connection_id_iter;
typedef struct tack_frame_receiver tack_frame_receiver;
typedef struct tack_frame_receiver_event tack_frame_receiver_event;
typedef struct tack_frame_sender tack_frame_sender;
typedef struct tack_frame_sender_event tack_frame_sender_event;
typedef struct tack_frame_stats tack_frame_stats;
typedef struct tack_h3_config tack_h3_config;
typedef struct tack_h3_conn tack_h3_conn;
typedef struct tack_h3_event tack_h3_event;
typedef struct tack_h3_header tack_h3_header;
typedef struct tack_h3_priority tack_h3_priority;
typedef struct tack_h3_stats tack_h3_stats;
typedef struct tack_media_stats tack_media_stats;
typedef struct tack_path_event tack_path_event;
typedef struct tack_path_stats tack_path_stats;
typedef struct tack_recv_info tack_recv_info;
typedef struct tack_send_info tack_send_info;
typedef struct tack_socket_addr_iter tack_socket_addr_iter;
typedef struct tack_stats tack_stats;
typedef struct tack_stats_tack tack_stats_tack;
typedef struct tack_stream_iter tack_stream_iter;
typedef struct tack_transport_params tack_transport_params;

// Room for what tack_conn_cc_parameters writes, bytes.
#define TACK_CC_PARAMETERS_LEN 25

// The longest frame, bytes.
#define TACK_MAX_FRAME_LEN 16777216

// QUIC version 1 (RFC 9000).
#define TACK_PROTOCOL_VERSION 1

// The longest connection id, bytes.
#define TACK_MAX_CONN_ID_LEN 20

// The shortest datagram with an Initial packet of a client, bytes.
#define TACK_MIN_CLIENT_INITIAL_LEN 1200

// Congestion control of quiche.
enum tack_cc_algorithm {
    // Reno.
    TACK_CC_RENO = 0,
    // CUBIC.
    TACK_CC_CUBIC = 1,
    // BBRv2.
    TACK_CC_BBR2_GCONGESTION = 4,
};

// Phases of Careful Resume (RFC 9959 section 3).
enum tack_careful_resume {
    // The path is observed, and nothing else.
    TACK_CAREFUL_RESUME_NORMAL = 0,
    // The initial window finds out whether the path is the one that was observed.
    TACK_CAREFUL_RESUME_RECONNAISSANCE = 1,
    // A jump: up to the saved window is sent within a round trip.
    TACK_CAREFUL_RESUME_UNVALIDATED = 2,
    // All of that is on its way.
    TACK_CAREFUL_RESUME_VALIDATING = 3,
    // It was too much: it drains.
    TACK_CAREFUL_RESUME_SAFE_RETREAT = 4,
};

// What the datagrams of a sender are marked with (RFC 3168, RFC 9331).
enum tack_ecn {
    // Nothing.
    TACK_ECN_OFF = 0,
    // ECT(0): a queue that marks means what it would mean by a drop.
    TACK_ECN_CLASSIC = 1,
    // ECT(1): a queue marks early and often.
    TACK_ECN_L4S = 2,
};

// What a sender knows of ECN on a path (RFC 9000 appendix A.4).
enum tack_ecn_state {
    // Nothing is marked.
    TACK_ECN_STATE_OFF = 0,
    // The first packets are marked.
    TACK_ECN_STATE_TESTING = 1,
    // The result of the test is awaited.
    TACK_ECN_STATE_UNKNOWN = 2,
    // Path or peer cannot be relied on: nothing is marked.
    TACK_ECN_STATE_FAILED = 3,
    // All packets are marked, and marks of the path count.
    TACK_ECN_STATE_CAPABLE = 4,
};

// Errors of QUIC. A function that fails returns one of them, or NULL, or false.
enum tack_error {
    // There is nothing (more) to do.
    TACK_ERR_DONE = -1,
    // The buffer is too short.
    TACK_ERR_BUFFER_TOO_SHORT = -2,
    // The packet cannot be read: its version is not known.
    TACK_ERR_UNKNOWN_VERSION = -3,
    // The packet cannot be read: a frame in it is not valid, or the peer has broken a rule of the
    // extension frames.
    TACK_ERR_INVALID_FRAME = -4,
    // The packet cannot be read.
    TACK_ERR_INVALID_PACKET = -5,
    // The connection is in a state in which this cannot be done.
    TACK_ERR_INVALID_STATE = -6,
    // The stream is in a state in which this cannot be done.
    TACK_ERR_INVALID_STREAM_STATE = -7,
    // The peer's transport parameters cannot be read.
    TACK_ERR_INVALID_TRANSPORT_PARAM = -8,
    // A cryptographic operation has failed.
    TACK_ERR_CRYPTO_FAIL = -9,
    // The TLS handshake has failed.
    TACK_ERR_TLS_FAIL = -10,
    // The peer has sent more than flow control lets it.
    TACK_ERR_FLOW_CONTROL = -11,
    // The peer has opened more streams than it may.
    TACK_ERR_STREAM_LIMIT = -12,
    // The peer has sent data behind the end of a stream.
    TACK_ERR_FINAL_SIZE = -13,
    // Congestion control has failed.
    TACK_ERR_CONGESTION_CONTROL = -14,
    // The peer reads no more of the stream (STOP_SENDING).
    TACK_ERR_STREAM_STOPPED = -15,
    // The peer has reset the stream (RESET_STREAM).
    TACK_ERR_STREAM_RESET = -16,
    // More connection ids than the peer lets be.
    TACK_ERR_ID_LIMIT = -17,
    // No connection id is left.
    TACK_ERR_OUT_OF_IDENTIFIERS = -18,
    // A key update has failed.
    TACK_ERR_KEY_UPDATE = -19,
    // The peer has sent more in CRYPTO frames than can be kept.
    TACK_ERR_CRYPTO_BUFFER_EXCEEDED = -20,
    // The peer has acknowledged packets that were not sent.
    TACK_ERR_INVALID_ACK_RANGE = -21,
    // The peer has acknowledged a packet number that was skipped as a trap.
    TACK_ERR_OPTIMISTIC_ACK_DETECTED = -22,
    // The destination connection id of a new client connection is not valid.
    TACK_ERR_INVALID_DCID_INITIALIZATION = -23,
    // An argument is not valid: a NULL pointer, an address that is not one of IPv4 or IPv6, a connection id
    // of more than TACK_MAX_CONN_ID_LEN bytes, text that is not UTF-8, a number that has no meaning.
    TACK_ERR_INVALID_ARGUMENT = -100,
};

// Why a frame is not delivered.
enum tack_frame_drop_cause {
    // One that this version of the header does not name, or the frame was not dropped.
    TACK_FRAME_DROP_UNKNOWN = 0,
    // It would have come behind its deadline, and none of it has left.
    TACK_FRAME_DROP_LATE = 1,
    // Its deadline passed while it was on its way; it is not known to have arrived.
    TACK_FRAME_DROP_EXPIRED = 2,
    // A frame that it depends on is not delivered.
    TACK_FRAME_DROP_DEPENDENCY = 3,
    // Too many others were waiting. tack_frame_sender_send refuses such a frame instead.
    TACK_FRAME_DROP_BACKLOG = 4,
    // The receiver has stopped its stream.
    TACK_FRAME_DROP_REFUSED = 5,
};

// What is wrong with a stream that holds no frame.
enum tack_frame_error {
    // Nothing.
    TACK_FRAME_ERROR_NONE = 0,
    // Its header has no end.
    TACK_FRAME_ERROR_TRUNCATED = 1,
    // The version of the format is not known.
    TACK_FRAME_ERROR_VERSION = 2,
    // The kind of the frame is not known.
    TACK_FRAME_ERROR_KIND = 3,
    // The frame depends on one before the first.
    TACK_FRAME_ERROR_DEPENDENCY = 4,
    // The frame is longer than it says or than is allowed, or too many are not whole.
    TACK_FRAME_ERROR_TOO_LONG = 5,
    // Something that this version of the header does not name.
    TACK_FRAME_ERROR_UNKNOWN = 6,
};

// What a frame is of.
enum tack_frame_kind {
    // Not known: the header of the frame has not come.
    TACK_FRAME_UNKNOWN = 0,
    // A picture that needs no other.
    TACK_FRAME_KEY = 1,
    // A picture that needs another.
    TACK_FRAME_DELTA = 2,
    // A piece of sound.
    TACK_FRAME_AUDIO = 3,
};

// Kinds of struct tack_frame_receiver_event.
enum tack_frame_receiver_event_type {
    // One that this version of the header does not name.
    TACK_FRAME_RECEIVER_EVENT_UNKNOWN = 0,
    // A frame has come whole.
    TACK_FRAME_RECEIVER_EVENT_FRAME = 1,
    // A frame will not come: its stream was reset, or has ended too early.
    TACK_FRAME_RECEIVER_EVENT_LOST = 2,
    // A stream that holds no frame was stopped.
    TACK_FRAME_RECEIVER_EVENT_MALFORMED = 3,
};

// Kinds of struct tack_frame_sender_event.
enum tack_frame_sender_event_type {
    // One that this version of the header does not name.
    TACK_FRAME_SENDER_EVENT_UNKNOWN = 0,
    // The connection has taken all of the frame.
    TACK_FRAME_SENDER_EVENT_TAKEN = 1,
    // The frame is not delivered. Frames that depend on it are not either; each has an event of its own.
    TACK_FRAME_SENDER_EVENT_DROPPED = 2,
    // A stream that is not a frame's was reset at its deadline: the program's.
    TACK_FRAME_SENDER_EVENT_OTHER_EXPIRED = 3,
    // The receiver has stopped a stream that is not a frame's: the program's. Beside a sender of frames
    // tack_conn_stream_stopped_next tells of none.
    TACK_FRAME_SENDER_EVENT_OTHER_STOPPED = 4,
};

// Errors of HTTP/3. Those of QUIC behind them are TACK_H3_TRANSPORT_ERR_...: the number of enum tack_error less
// 1000. TACK_ERR_INVALID_ARGUMENT is itself.
enum tack_h3_error {
    // There is nothing (more) to do.
    TACK_H3_ERR_DONE = -1,
    // The buffer is too short.
    TACK_H3_ERR_BUFFER_TOO_SHORT = -2,
    // HTTP/3 has failed by itself.
    TACK_H3_ERR_INTERNAL_ERROR = -3,
    // The peer causes too much work.
    TACK_H3_ERR_EXCESSIVE_LOAD = -4,
    // A stream id or push id is beyond its limit, or used again.
    TACK_H3_ERR_ID_ERROR = -5,
    // The peer has opened a stream that it may not open.
    TACK_H3_ERR_STREAM_CREATION_ERROR = -6,
    // A stream was closed that has to stay.
    TACK_H3_ERR_CLOSED_CRITICAL_STREAM = -7,
    // The control stream does not begin with SETTINGS.
    TACK_H3_ERR_MISSING_SETTINGS = -8,
    // A frame has come that may not come now.
    TACK_H3_ERR_FRAME_UNEXPECTED = -9,
    // A frame is not valid.
    TACK_H3_ERR_FRAME_ERROR = -10,
    // Header fields cannot be decoded.
    TACK_H3_ERR_QPACK_DECOMPRESSION_FAILED = -11,
    // There is no room: to be tried again when the stream can be written.
    TACK_H3_ERR_STREAM_BLOCKED = -13,
    // A SETTINGS frame is not valid.
    TACK_H3_ERR_SETTINGS_ERROR = -14,
    // The server has rejected the request.
    TACK_H3_ERR_REQUEST_REJECTED = -15,
    // The request or its response was cancelled.
    TACK_H3_ERR_REQUEST_CANCELLED = -16,
    // The request has ended before it was whole.
    TACK_H3_ERR_REQUEST_INCOMPLETE = -17,
    // A message is malformed.
    TACK_H3_ERR_MESSAGE_ERROR = -18,
    // The connection behind CONNECT was reset.
    TACK_H3_ERR_CONNECT_ERROR = -19,
    // The request is to be repeated over HTTP/1.1.
    TACK_H3_ERR_VERSION_FALLBACK = -20,
    // See TACK_ERR_DONE.
    TACK_H3_TRANSPORT_ERR_DONE = -1001,
    // See TACK_ERR_BUFFER_TOO_SHORT.
    TACK_H3_TRANSPORT_ERR_BUFFER_TOO_SHORT = -1002,
    // See TACK_ERR_UNKNOWN_VERSION.
    TACK_H3_TRANSPORT_ERR_UNKNOWN_VERSION = -1003,
    // See TACK_ERR_INVALID_FRAME.
    TACK_H3_TRANSPORT_ERR_INVALID_FRAME = -1004,
    // See TACK_ERR_INVALID_PACKET.
    TACK_H3_TRANSPORT_ERR_INVALID_PACKET = -1005,
    // See TACK_ERR_INVALID_STATE.
    TACK_H3_TRANSPORT_ERR_INVALID_STATE = -1006,
    // See TACK_ERR_INVALID_STREAM_STATE.
    TACK_H3_TRANSPORT_ERR_INVALID_STREAM_STATE = -1007,
    // See TACK_ERR_INVALID_TRANSPORT_PARAM.
    TACK_H3_TRANSPORT_ERR_INVALID_TRANSPORT_PARAM = -1008,
    // See TACK_ERR_CRYPTO_FAIL.
    TACK_H3_TRANSPORT_ERR_CRYPTO_FAIL = -1009,
    // See TACK_ERR_TLS_FAIL.
    TACK_H3_TRANSPORT_ERR_TLS_FAIL = -1010,
    // See TACK_ERR_FLOW_CONTROL.
    TACK_H3_TRANSPORT_ERR_FLOW_CONTROL = -1011,
    // See TACK_ERR_STREAM_LIMIT.
    TACK_H3_TRANSPORT_ERR_STREAM_LIMIT = -1012,
    // See TACK_ERR_FINAL_SIZE.
    TACK_H3_TRANSPORT_ERR_FINAL_SIZE = -1013,
    // See TACK_ERR_CONGESTION_CONTROL.
    TACK_H3_TRANSPORT_ERR_CONGESTION_CONTROL = -1014,
    // See TACK_ERR_STREAM_STOPPED.
    TACK_H3_TRANSPORT_ERR_STREAM_STOPPED = -1015,
    // See TACK_ERR_STREAM_RESET.
    TACK_H3_TRANSPORT_ERR_STREAM_RESET = -1016,
    // See TACK_ERR_ID_LIMIT.
    TACK_H3_TRANSPORT_ERR_ID_LIMIT = -1017,
    // See TACK_ERR_OUT_OF_IDENTIFIERS.
    TACK_H3_TRANSPORT_ERR_OUT_OF_IDENTIFIERS = -1018,
    // See TACK_ERR_KEY_UPDATE.
    TACK_H3_TRANSPORT_ERR_KEY_UPDATE = -1019,
    // See TACK_ERR_CRYPTO_BUFFER_EXCEEDED.
    TACK_H3_TRANSPORT_ERR_CRYPTO_BUFFER_EXCEEDED = -1020,
    // See TACK_ERR_INVALID_ACK_RANGE.
    TACK_H3_TRANSPORT_ERR_INVALID_ACK_RANGE = -1021,
    // See TACK_ERR_OPTIMISTIC_ACK_DETECTED.
    TACK_H3_TRANSPORT_ERR_OPTIMISTIC_ACK_DETECTED = -1022,
    // See TACK_ERR_INVALID_DCID_INITIALIZATION.
    TACK_H3_TRANSPORT_ERR_INVALID_DCID_INITIALIZATION = -1023,
};

// Kinds of struct tack_h3_event.
enum tack_h3_event_type {
    // Header fields or trailers have come.
    TACK_H3_EVENT_HEADERS,
    // A body can be read with tack_h3_recv_body.
    TACK_H3_EVENT_DATA,
    // A message is whole.
    TACK_H3_EVENT_FINISHED,
    // The peer takes no more requests.
    TACK_H3_EVENT_GOAWAY,
    // The peer has reset the stream.
    TACK_H3_EVENT_RESET,
    // A priority has come, for tack_h3_take_last_priority_update.
    TACK_H3_EVENT_PRIORITY_UPDATE,
};

// Kinds of struct tack_path_event.
enum tack_path_event_type {
    // The peer uses a new path.
    TACK_PATH_EVENT_NEW,
    // The path is validated.
    TACK_PATH_EVENT_VALIDATED,
    // The path cannot be validated.
    TACK_PATH_EVENT_FAILED_VALIDATION,
    // The path was given up.
    TACK_PATH_EVENT_CLOSED,
    // The peer uses a connection id on another path than before.
    TACK_PATH_EVENT_REUSED_SOURCE_CONNECTION_ID,
    // The peer has migrated.
    TACK_PATH_EVENT_PEER_MIGRATED,
    // The path MTU is known.
    TACK_PATH_EVENT_PMTU_UPDATED,
};

// Sets of defaults for a kind of use.
enum tack_profile {
    // TACK with a hundred acknowledgements a second at most.
    TACK_PROFILE_DEFAULT = 0,
    // For live video: a change of the path is followed in half the time, and the rate that the path could carry is
    // measured while less is sent.
    TACK_PROFILE_VIDEO = 1,
    // Small flows are acknowledged packet by packet.
    TACK_PROFILE_QUICK = 2,
    // quiche as it comes, without TACK.
    TACK_PROFILE_OFF = 3,
};

// Sides of a stream that can be shut down.
enum tack_shutdown {
    // No more is read.
    TACK_SHUTDOWN_READ = 0,
    // No more is written: the stream is reset.
    TACK_SHUTDOWN_WRITE = 1,
};

// A configuration, which connections are made with. It can be freed before they are.
struct tack_config;

// A connection. One thread at a time may use it, and no function of it may be called by a callback of another.
struct tack_conn;

// Connection ids. It is a list of its own, and outlives the connection.
struct tack_connection_id_iter;

// Puts the frames of a sender at the other end together. What a sender can make it keep is bounded: 64 MiB of frames
// that are not whole, and 64 MiB or 4,096 events that the program has not taken.
struct tack_frame_receiver;

// Sends frames over a connection, each on a unidirectional stream of its own: older and more urgent ones first, none
// that would come behind its deadline, none without the frame that it depends on. Sound is more urgent than pictures,
// and a lower layer than a higher one.
//
// A frame begins when no more than leaves in 10 ms waits in the send buffer of the connection, which other streams
// share: what is sent beside frames is written at an urgency above 7, and only while `backlog` of
// struct tack_media_stats is less than that.
struct tack_frame_sender;

// A configuration of HTTP/3. It can be freed before the connections that it was used for.
struct tack_h3_config;

// An HTTP/3 connection, over a connection that each function takes too.
struct tack_h3_conn;

// What has happened on an HTTP/3 connection.
struct tack_h3_event;

// What has happened to a path.
struct tack_path_event;

// The peer's addresses of paths. It is a list of its own, and outlives the connection.
struct tack_socket_addr_iter;

// Streams that can be read or written. It is a list of its own, and outlives the connection.
struct tack_stream_iter;

// The peer's transport parameters (RFC 9000 section 18.2).
struct tack_transport_params {
    // `max_idle_timeout`, milliseconds.
    uint64_t peer_max_idle_timeout;
    // `max_udp_payload_size`, bytes.
    uint64_t peer_max_udp_payload_size;
    // `initial_max_data`, bytes.
    uint64_t peer_initial_max_data;
    // `initial_max_stream_data_bidi_local`, bytes.
    uint64_t peer_initial_max_stream_data_bidi_local;
    // `initial_max_stream_data_bidi_remote`, bytes.
    uint64_t peer_initial_max_stream_data_bidi_remote;
    // `initial_max_stream_data_uni`, bytes.
    uint64_t peer_initial_max_stream_data_uni;
    // `initial_max_streams_bidi`.
    uint64_t peer_initial_max_streams_bidi;
    // `initial_max_streams_uni`.
    uint64_t peer_initial_max_streams_uni;
    // `ack_delay_exponent`.
    uint64_t peer_ack_delay_exponent;
    // `max_ack_delay`, milliseconds.
    uint64_t peer_max_ack_delay;
    // `disable_active_migration`.
    bool peer_disable_active_migration;
    // `active_connection_id_limit`.
    uint64_t peer_active_conn_id_limit;
    // `max_datagram_frame_size`, bytes; TACK_ERR_DONE if there is none.
    ssize_t peer_max_datagram_frame_size;
};

// Where a datagram came from.
struct tack_recv_info {
    // The address that it came from.
    const struct sockaddr *from;
    // Its length.
    socklen_t from_len;
    // The address of this end that it came to.
    const struct sockaddr *to;
    // Its length.
    socklen_t to_len;
};

// Where a datagram goes.
struct tack_send_info {
    // The address of this end to send it from.
    struct sockaddr_storage from;
    // Its length.
    socklen_t from_len;
    // The address to send it to.
    struct sockaddr_storage to;
    // Its length.
    socklen_t to_len;
    // The time to send it at, of CLOCK_MONOTONIC.
    struct timespec at;
};

// Statistics of a connection.
struct tack_stats {
    // QUIC packets received.
    size_t recv;
    // QUIC packets sent.
    size_t sent;
    // QUIC packets taken for lost.
    size_t lost;
    // Of these, packets that were acknowledged later.
    size_t spurious_lost;
    // QUIC packets sent with data that had been sent before.
    size_t retrans;
    // Bytes sent.
    uint64_t sent_bytes;
    // Bytes received.
    uint64_t recv_bytes;
    // Bytes acknowledged.
    uint64_t acked_bytes;
    // Bytes taken for lost.
    uint64_t lost_bytes;
    // Bytes of streams sent again.
    uint64_t stream_retrans_bytes;
    // DATAGRAM frames received.
    size_t dgram_recv;
    // DATAGRAM frames sent.
    size_t dgram_sent;
    // Paths, for tack_conn_path_stats.
    size_t paths_count;
    // Streams that this end has reset.
    uint64_t reset_stream_count_local;
    // Streams that this end has stopped.
    uint64_t stopped_stream_count_local;
    // Streams that the peer has reset.
    uint64_t reset_stream_count_remote;
    // Streams that the peer has stopped.
    uint64_t stopped_stream_count_remote;
    // DATA_BLOCKED frames sent.
    uint64_t data_blocked_sent_count;
    // STREAM_DATA_BLOCKED frames sent.
    uint64_t stream_data_blocked_sent_count;
    // DATA_BLOCKED frames received.
    uint64_t data_blocked_recv_count;
    // STREAM_DATA_BLOCKED frames received.
    uint64_t stream_data_blocked_recv_count;
    // STREAMS_BLOCKED frames received for bidirectional streams.
    uint64_t streams_blocked_bidi_recv_count;
    // The same for unidirectional streams.
    uint64_t streams_blocked_uni_recv_count;
    // PATH_CHALLENGE frames received.
    uint64_t path_challenge_rx_count;
    // Time with bytes in flight, milliseconds.
    uint64_t bytes_in_flight_duration_msec;
    // Whether quiche has lost count of what it is to send.
    bool tx_buffered_inconsistent;
};

// Statistics of a path.
struct tack_path_stats {
    // The address of this end.
    struct sockaddr_storage local_addr;
    // Its length.
    socklen_t local_addr_len;
    // The address of the peer.
    struct sockaddr_storage peer_addr;
    // Its length.
    socklen_t peer_addr_len;
    // -1 if validation has failed, 0 before it, 1 during it, 2 while the path MTU is missing, 3 behind it.
    ssize_t validation_state;
    // Whether data goes over this path.
    bool active;
    // QUIC packets received.
    size_t recv;
    // QUIC packets sent.
    size_t sent;
    // QUIC packets taken for lost.
    size_t lost;
    // QUIC packets sent with data that had been sent before.
    size_t retrans;
    // How often the probe timer has expired.
    size_t total_pto_count;
    // DATAGRAM frames received.
    size_t dgram_recv;
    // DATAGRAM frames sent.
    size_t dgram_sent;
    // Smoothed round trip, nanoseconds.
    uint64_t rtt;
    // Smallest round trip, nanoseconds; 0 if none is known.
    uint64_t min_rtt;
    // Largest round trip, nanoseconds, with the wait for a TACK; 0 if none is known.
    uint64_t max_rtt;
    // Variation of the round trip, nanoseconds.
    uint64_t rttvar;
    // Bytes that may be in flight.
    size_t cwnd;
    // Bytes sent.
    uint64_t sent_bytes;
    // Bytes received.
    uint64_t recv_bytes;
    // Bytes taken for lost.
    uint64_t lost_bytes;
    // Bytes of streams sent again.
    uint64_t stream_retrans_bytes;
    // The path MTU, bytes.
    size_t pmtu;
    // The bandwidth estimate, bytes per second.
    uint64_t delivery_rate;
    // The same; the highest that was seen, with TACK_PROFILE_OFF. 0 if none is known.
    uint64_t max_bandwidth;
    // The window at the end of quiche's slow start, bytes; 0 with TACK.
    uint64_t startup_exit_cwnd;
};

// Statistics of an HTTP/3 connection.
struct tack_h3_stats {
    // Bytes received on the QPACK encoder stream.
    uint64_t qpack_encoder_stream_recv_bytes;
    // Bytes received on the QPACK decoder stream.
    uint64_t qpack_decoder_stream_recv_bytes;
};

// A priority (RFC 9218).
struct tack_h3_priority {
    // Urgency, 0 to 7: the lower goes first.
    uint8_t urgency;
    // Whether responses of one urgency take turns.
    bool incremental;
};

// What a receiver of frames has seen. Set `size` to `sizeof(struct tack_frame_receiver_event)` before
// tack_frame_receiver_next: later versions of the library add fields at the end.
struct tack_frame_receiver_event {
    // Length of the struct, bytes; becomes how much of it was written.
    size_t size;
    // What has happened.
    enum tack_frame_receiver_event_type event_type;
    // What the frame is of; TACK_FRAME_UNKNOWN if its header has not come: then the fields of the header, down to
    // `lifetime`, say nothing.
    enum tack_frame_kind kind;
    // What is wrong with the stream of TACK_FRAME_RECEIVER_EVENT_MALFORMED.
    enum tack_frame_error error;
    // Layer of a scalable encoder.
    uint8_t layer;
    // The number of the frame, or TACK_NO_FRAME. Numbers go up by one with each frame that the sender was given.
    uint64_t number;
    // The frame without which it cannot be shown, or TACK_NO_FRAME.
    uint64_t depends_on;
    // When it was captured, nanoseconds from the sender's start.
    uint64_t captured;
    // How long after that it is worth nothing, nanoseconds.
    uint64_t lifetime;
    // How long ago the last of it was read, nanoseconds; TACK_UNKNOWN if it is not whole.
    uint64_t age;
    // The bytes of a whole frame: they belong to the receiver, until the next tack_frame_receiver_next or
    // tack_frame_receiver_free. NULL if there are none.
    const uint8_t *payload;
    // How many there are.
    size_t payload_len;
    // The stream of TACK_FRAME_RECEIVER_EVENT_MALFORMED; else 0.
    uint64_t stream_id;
};

// What has become of a frame. Set `size` to `sizeof(struct tack_frame_sender_event)` before tack_frame_sender_next:
// later versions of the library add fields at the end.
struct tack_frame_sender_event {
    // Length of the struct, bytes; becomes how much of it was written.
    size_t size;
    // What has happened.
    enum tack_frame_sender_event_type event_type;
    // Why the frame was dropped.
    enum tack_frame_drop_cause cause;
    // The frame; TACK_NO_FRAME if the event is about none.
    uint64_t number;
    // The stream of TACK_FRAME_SENDER_EVENT_OTHER_EXPIRED and TACK_FRAME_SENDER_EVENT_OTHER_STOPPED; else 0.
    uint64_t stream_id;
};

// Statistics of a sender of frames. Set `size` to `sizeof(struct tack_frame_stats)` before
// tack_frame_sender_stats: later versions of the library add fields at the end.
struct tack_frame_stats {
    // Length of the struct, bytes; becomes how much of it was written.
    size_t size;
    // Frames of which the connection has not taken all.
    uint64_t waiting;
    // Bytes of them.
    uint64_t waiting_bytes;
    // Frames that were dropped before the connection had taken any of them: the receiver hears of none.
    uint64_t never_begun;
};

// A header field.
struct tack_h3_header {
    // The name, in lower case.
    const uint8_t *name;
    // Its length.
    size_t name_len;
    // The value.
    const uint8_t *value;
    // Its length.
    size_t value_len;
};

// What a live source adapts to. Set `size` to `sizeof(struct tack_media_stats)` before tack_conn_media_stats:
// later versions of the library add fields at the end.
struct tack_media_stats {
    // Length of the struct, bytes; becomes how much of it was written.
    size_t size;
    // The rate that the path could carry now, bytes of UDP payload per second.
    uint64_t estimated_send_rate;
    // Time since it was last measured, nanoseconds; TACK_UNKNOWN before the first time.
    uint64_t rate_age;
    // What is left of it beside what is sent, bytes per second.
    uint64_t spare_rate;
    // Smoothed round trip, nanoseconds, or TACK_UNKNOWN.
    uint64_t smoothed_rtt;
    // The smallest round trip of the last ten seconds, nanoseconds, or TACK_UNKNOWN.
    uint64_t min_rtt;
    // Mean difference of round trips in a row, nanoseconds, or TACK_UNKNOWN.
    uint64_t jitter;
    // What the latest round trip lies above the smallest, nanoseconds, or TACK_UNKNOWN.
    uint64_t queueing_delay;
    // Share of the bytes taken for lost of those sent in the last half second to second: 0 to 1.
    double loss_rate;
    // Bytes of streams that are written and have not left.
    uint64_t backlog;
    // Time until a byte leaves that is written now, nanoseconds.
    uint64_t time_to_leave;
    // Time until it arrives, nanoseconds, or TACK_UNKNOWN: with the median of the last 64 round trips.
    uint64_t time_to_arrive_p50;
    // The same with their 95th percentile.
    uint64_t time_to_arrive_p95;
    // Streams that were reset at their deadline.
    uint64_t expired_streams;
    // DATAGRAMs that were dropped at theirs.
    uint64_t expired_datagrams;
};

// Statistics of the layer. Set `size` to `sizeof(struct tack_stats_tack)` before tack_conn_stats_tack: later
// versions of the library add fields at the end.
struct tack_stats_tack {
    // Length of the struct, bytes; becomes how much of it was written.
    size_t size;
    // Whether both ends speak TACK.
    bool tack;
    // What is known of ECN on the path that data goes over (enum tack_ecn_state).
    int ecn;
    // Where Careful Resume is (RFC 9959; enum tack_careful_resume).
    int careful_resume;
    // The rate at which data may be sent, bytes per second: BWmax.
    uint64_t bandwidth;
    // The rate at which packets leave now, bytes per second.
    uint64_t pacing_rate;
    // Bytes sent and neither acknowledged nor lost.
    uint64_t bytes_in_flight;
    // The smallest round trip of the last ten seconds, nanoseconds; TACK_UNKNOWN if none is known.
    uint64_t min_rtt;
    // Smoothed round trip, nanoseconds, or TACK_UNKNOWN.
    uint64_t smoothed_rtt;
    // Queueing on the way here, nanoseconds, or TACK_UNKNOWN.
    uint64_t queueing_delay;
    // Share of lost packets of what is sent, as the receiver reports it: 0 to 1.
    double loss_rate;
    // Share of lost packets of what is received: 0 to 1.
    double incoming_loss_rate;
    // Share of lost TACKs of those that the peer sends: 0 to 1.
    double ack_loss_rate;
    // TACKs sent.
    uint64_t tacks_sent;
    // IACKs sent.
    uint64_t iacks_sent;
    // Missing ranges of stream bytes listed in them.
    uint64_t bubbles_sent;
    // ACKs that a delayed-ACK receiver would have sent instead.
    uint64_t delayed_acks_instead;
    // TACKs received.
    uint64_t tacks_received;
    // IACKs received.
    uint64_t iacks_received;
    // Standard ACK frames received.
    uint64_t acks_received;
    // ACK_FREQUENCY frames sent.
    uint64_t frequency_updates_sent;
    // Packets whose data had arrived as bubbles told, when nothing else did.
    uint64_t packets_by_bubbles;
    // IMMEDIATE_ACK frames sent.
    uint64_t immediate_acks_sent;
    // Packets taken for lost.
    uint64_t lost_packets;
    // Of these, packets that had arrived.
    uint64_t spurious_losses;
    // Bytes taken for lost.
    uint64_t lost_bytes;
    // Packets received that had to be opened and read; the others are taken by their header.
    uint64_t packets_opened;
    // Packets received that were damaged, forged or received before.
    uint64_t packets_refused;
    // Packets sent that were sealed again for the layer's frames.
    uint64_t packets_resealed;
    // Packets sent with an ECT codepoint.
    uint64_t ecn_marked;
    // Packets newly reported as CE, on paths where reports can be relied on.
    uint64_t ecn_ce_reported;
    // Packets received as ECT(0).
    uint64_t ecn_ect0_received;
    // Packets received as ECT(1).
    uint64_t ecn_ect1_received;
    // Packets received as CE.
    uint64_t ecn_ce_received;
    // Bytes sent to measure the path with packet trains, and for nothing else.
    uint64_t train_bytes;
    // Packet numbers skipped on purpose, as a trap for optimistic acknowledgements.
    uint64_t packets_skipped;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Creates a configuration for a QUIC version (TACK_PROTOCOL_VERSION), or returns NULL.
//
// The environment variable TACK_PROFILE (`default`, `video`, `off`) chooses the profile that it begins with.
struct tack_config *tack_config_new(uint32_t version);

// Frees a configuration. NULL is nothing to free.
void tack_config_free(struct tack_config *config);

// Loads the certificate chain that this end shows. Returns 0 or an error.
int tack_config_load_cert_chain_from_pem_file(struct tack_config *config, const char *path);

// Loads the private key of that certificate. Returns 0 or an error.
int tack_config_load_priv_key_from_pem_file(struct tack_config *config, const char *path);

// Loads the certificates that are trusted from a PEM file. Returns 0 or an error.
int tack_config_load_verify_locations_from_file(struct tack_config *config, const char *path);

// Loads the certificates that are trusted from a directory of PEM files. Returns 0 or an error.
int tack_config_load_verify_locations_from_directory(struct tack_config *config,
                                                     const char *path);

// Sets the key exchange groups in order of preference, such as `X25519:P-256`. Returns 0 or an error.
int tack_config_set_curves_list(struct tack_config *config,
                                const char *curves);

// Sets whether the peer's certificate is verified: yes for clients, no for servers unless set.
void tack_config_verify_peer(struct tack_config *config, bool v);

// Sets whether reserved values are sent (GREASE): yes unless set.
void tack_config_grease(struct tack_config *config, bool v);

// Sets whether the path MTU is discovered: no unless set.
void tack_config_discover_pmtu(struct tack_config *config, bool v);

// Sets how often a size is tried before it is taken for too large.
void tack_config_set_pmtud_max_probes(struct tack_config *config, uint8_t max_probes);

// Has the secrets of connections logged where tack_conn_set_keylog_path and ..._fd say.
void tack_config_log_keys(struct tack_config *config);

// Lets data be sent and received in 0-RTT.
void tack_config_enable_early_data(struct tack_config *config);

// Sets the application protocols (ALPN): each is a byte with its length and then the name. Returns 0 or an
// error.
int tack_config_set_application_protos(struct tack_config *config,
                                       const uint8_t *protos,
                                       size_t protos_len);

// Sets how many times what it has received a server sends before the address is validated: 3 unless set.
void tack_config_set_max_amplification_factor(struct tack_config *config,
                                              size_t v);

// Sets `max_idle_timeout`, milliseconds; 0 is none, as when it is not set.
void tack_config_set_max_idle_timeout(struct tack_config *config, uint64_t v);

// Sets `max_udp_payload_size`: the longest datagram that is received, bytes.
void tack_config_set_max_recv_udp_payload_size(struct tack_config *config, size_t v);

// Sets the longest datagram that is sent, bytes.
void tack_config_set_max_send_udp_payload_size(struct tack_config *config, size_t v);

// Sets `initial_max_data`: bytes that the peer may send on all streams before any is read.
void tack_config_set_initial_max_data(struct tack_config *config, uint64_t v);

// Sets `initial_max_stream_data_bidi_local`, bytes: the same for each bidirectional stream that this end opens.
void tack_config_set_initial_max_stream_data_bidi_local(struct tack_config *config,
                                                        uint64_t v);

// Sets `initial_max_stream_data_bidi_remote`, bytes: for each that the peer opens.
void tack_config_set_initial_max_stream_data_bidi_remote(struct tack_config *config,
                                                         uint64_t v);

// Sets `initial_max_stream_data_uni`, bytes: for each unidirectional stream.
void tack_config_set_initial_max_stream_data_uni(struct tack_config *config, uint64_t v);

// Sets `initial_max_streams_bidi`: bidirectional streams that the peer may have open.
void tack_config_set_initial_max_streams_bidi(struct tack_config *config, uint64_t v);

// Sets `initial_max_streams_uni`: the same for unidirectional ones.
void tack_config_set_initial_max_streams_uni(struct tack_config *config, uint64_t v);

// Sets `ack_delay_exponent`.
void tack_config_set_ack_delay_exponent(struct tack_config *config, uint64_t v);

// Sets `max_ack_delay`, milliseconds.
void tack_config_set_max_ack_delay(struct tack_config *config, uint64_t v);

// Sets `disable_active_migration`.
void tack_config_set_disable_active_migration(struct tack_config *config, bool v);

// Sets quiche's congestion control by its name. It has an effect with TACK_PROFILE_OFF alone. Returns 0 or an error.
int tack_config_set_cc_algorithm_name(struct tack_config *config,
                                      const char *algo);

// Sets quiche's congestion control (enum tack_cc_algorithm). It has an effect with TACK_PROFILE_OFF alone; a
// number that is none of them has no effect.
void tack_config_set_cc_algorithm(struct tack_config *config,
                                  enum tack_cc_algorithm algo);

// Sets the initial congestion window, packets; those behind the tenth are paced.
void tack_config_set_initial_congestion_window_packets(struct tack_config *config,
                                                       size_t packets);

// Sets whether quiche's congestion control uses HyStart++. It has an effect with TACK_PROFILE_OFF alone.
void tack_config_enable_hystart(struct tack_config *config,
                                bool v);

// Sets whether quiche paces. It has an effect with TACK_PROFILE_OFF alone. TACK always does.
void tack_config_enable_pacing(struct tack_config *config, bool v);

// Sets whether quiche's CUBIC leaves idle times out. It has an effect with TACK_PROFILE_OFF alone.
void tack_config_set_enable_cubic_idle_restart_fix(struct tack_config *config,
                                                   bool v);

// Has no effect: quiche always does this.
void tack_config_set_use_initial_max_data_as_flow_control_win(struct tack_config *config,
                                                              bool v);

// Sets the highest rate at which quiche paces, bytes per second. It has an effect with TACK_PROFILE_OFF alone.
void tack_config_set_max_pacing_rate(struct tack_config *config,
                                     uint64_t v);

// Sets whether DATAGRAM frames are taken, and how many wait to be read and to be sent at most.
void tack_config_enable_dgram(struct tack_config *config,
                              bool enabled,
                              size_t recv_queue_len,
                              size_t send_queue_len);

// Sets the largest flow-control window of the connection, bytes.
void tack_config_set_max_connection_window(struct tack_config *config, uint64_t v);

// Sets the largest flow-control window of a stream, bytes.
void tack_config_set_max_stream_window(struct tack_config *config, uint64_t v);

// Sets `active_connection_id_limit`: connection ids that the peer may give.
void tack_config_set_active_connection_id_limit(struct tack_config *config, uint64_t v);

// Sets the stateless reset token of the next server connection: 16 bytes.
void tack_config_set_stateless_reset_token(struct tack_config *config, const uint8_t *v);

// Sets whether each path has a destination connection id of its own.
void tack_config_set_disable_dcid_reuse(struct tack_config *config, bool v);

// Sets the key of session tickets: 48 bytes. Returns 0 or an error.
int tack_config_set_ticket_key(struct tack_config *config, const uint8_t *key, size_t key_len);

// Sets the profile (enum tack_profile), and all settings of the layer to its defaults. Returns 0, or an error
// if there is no such profile.
int tack_config_set_profile(struct tack_config *config,
                            enum tack_profile profile);

// Returns the profile (enum tack_profile).
int tack_config_profile(const struct tack_config *config);

// Sets how much may be written and not yet sent, bytes: 4 MiB unless set.
void tack_config_set_send_buffer(struct tack_config *config, size_t bytes);

// Sets the same in time, nanoseconds: no more than leaves in this time waits. 0 is no limit; 100 ms in the
// video profile unless set.
void tack_config_set_send_buffer_time(struct tack_config *config,
                                      uint64_t nanos);

// Sets how long a DATAGRAM may wait before it is dropped, nanoseconds. 0 is no limit, as when it is not set.
void tack_config_set_datagram_max_age(struct tack_config *config,
                                      uint64_t nanos);

// Sets the error code with which streams are reset whose deadline has passed: 0 unless set.
void tack_config_set_deadline_error(struct tack_config *config, uint64_t err);

// Sets whether the path is measured with packet trains while less is sent than it carries: yes in the video
// profile, no in others unless set.
void tack_config_set_packet_trains(struct tack_config *config,
                                   bool enabled);

// Creates the connection of a server for a client's first Initial, or returns NULL.
//
// `scid` is the connection id that the server gives itself. After a Retry, `odcid` is the destination
// connection id of the client's first Initial and `scid` that of the Retry; NULL if there was none.
struct tack_conn *tack_accept(const uint8_t *scid,
                              size_t scid_len,
                              const uint8_t *odcid,
                              size_t odcid_len,
                              const struct sockaddr *local,
                              socklen_t local_len,
                              const struct sockaddr *peer,
                              socklen_t peer_len,
                              struct tack_config *config);

// Creates the connection of a client, or returns NULL.
//
// `server_name` is the name that the server's certificate has to have; NULL if it is not verified. `scid` is
// the connection id that the client gives itself.
struct tack_conn *tack_connect(const char *server_name,
                               const uint8_t *scid,
                               size_t scid_len,
                               const struct sockaddr *local,
                               socklen_t local_len,
                               const struct sockaddr *peer,
                               socklen_t peer_len,
                               struct tack_config *config);

// Frees a connection, and with it all that functions with `out` have returned pointers to. NULL is nothing to
// free. The peer does not hear of it: tack_conn_close tells it.
void tack_conn_free(struct tack_conn *conn);

// Returns the longest DATAGRAM that can be sent, bytes; TACK_ERR_DONE if the peer takes none.
ssize_t tack_conn_dgram_max_writable_len(const struct tack_conn *conn);

// Returns the length of the next DATAGRAM to read, bytes; TACK_ERR_DONE if there is none.
ssize_t tack_conn_dgram_recv_front_len(const struct tack_conn *conn);

// Returns how many DATAGRAMs wait to be read.
ssize_t tack_conn_dgram_recv_queue_len(const struct tack_conn *conn);

// Returns how many bytes they have.
ssize_t tack_conn_dgram_recv_queue_byte_size(const struct tack_conn *conn);

// Returns how many DATAGRAMs wait to be sent.
ssize_t tack_conn_dgram_send_queue_len(const struct tack_conn *conn);

// Returns how many bytes they have.
ssize_t tack_conn_dgram_send_queue_byte_size(const struct tack_conn *conn);

// Reads the next DATAGRAM. Returns its length, or an error.
ssize_t tack_conn_dgram_recv(struct tack_conn *conn, uint8_t *buf, size_t buf_len);

// Queues a DATAGRAM. Returns its length, or an error: TACK_ERR_DONE if the queue is full.
ssize_t tack_conn_dgram_send(struct tack_conn *conn, const uint8_t *buf, size_t buf_len);

// Queues a DATAGRAM that is dropped if it has not left in `nanos` from now.
ssize_t tack_conn_dgram_send_within(struct tack_conn *conn,
                                    const uint8_t *buf,
                                    size_t buf_len,
                                    uint64_t nanos);

// Drops the DATAGRAMs that wait to be sent and of which `f` returns true. It may not change them.
void tack_conn_dgram_purge_outgoing(struct tack_conn *conn,
                                    bool (*f)(uint8_t*, size_t));

// Whether no more DATAGRAMs can be queued to be sent.
bool tack_conn_is_dgram_send_queue_full(const struct tack_conn *conn);

// Whether DATAGRAMs that come now are dropped, because too many wait to be read.
bool tack_conn_is_dgram_recv_queue_full(const struct tack_conn *conn);

// Resumes a session that tack_conn_session of an earlier connection has returned. To be called by a client
// right after tack_connect. Returns 0 or an error.
int tack_conn_set_session(struct tack_conn *conn,
                          const uint8_t *buf,
                          size_t buf_len);

// Sets the idle timeout of one connection, milliseconds; before its handshake. Returns 0 or an error.
int tack_conn_set_max_idle_timeout(struct tack_conn *conn,
                                   uint64_t v);

// Tells the application protocol that was agreed on; no bytes before that.
void tack_conn_application_proto(const struct tack_conn *conn,
                                 const uint8_t **out,
                                 size_t *out_len);

// Tells the peer's certificate in DER; no bytes if it has shown none.
void tack_conn_peer_cert(const struct tack_conn *conn, const uint8_t **out, size_t *out_len);

// Tells the session to resume in a later connection; no bytes if there is none yet.
void tack_conn_session(const struct tack_conn *conn, const uint8_t **out, size_t *out_len);

// Tells the server name that the client has asked for, without an end of a string; no bytes if there is none.
void tack_conn_server_name(const struct tack_conn *conn,
                           const uint8_t **out,
                           size_t *out_len);

// Whether the session was resumed.
bool tack_conn_is_resumed(const struct tack_conn *conn);

// Whether data can be sent or received in 0-RTT now.
bool tack_conn_is_in_early_data(const struct tack_conn *conn);

// Tells the peer's transport parameters. Returns false before they have come.
bool tack_conn_peer_transport_params(const struct tack_conn *conn,
                                     struct tack_transport_params *out);

// Tells a name of the connection for logs, without an end of a string.
void tack_conn_trace_id(const struct tack_conn *conn, const uint8_t **out, size_t *out_len);

// Tells the connection id of this end. The pointer is good until the next call that takes a connection that
// is not const.
void tack_conn_source_id(const struct tack_conn *conn,
                         const uint8_t **out,
                         size_t *out_len);

// Tells the connection id of the peer, as tack_conn_source_id.
void tack_conn_destination_id(const struct tack_conn *conn,
                              const uint8_t **out,
                              size_t *out_len);

// Returns all connection ids of this end, to be freed with tack_connection_id_iter_free.
struct tack_connection_id_iter *tack_conn_source_ids(struct tack_conn *conn);

// Returns the connection ids of this end that the peer has retired since the last call, to be freed with
// tack_connection_id_iter_free.
struct tack_connection_id_iter *tack_conn_retired_scid_iter(struct tack_conn *conn);

// Takes the next connection id of a list, in which it stays. Returns false behind the last one.
bool tack_connection_id_iter_next(struct tack_connection_id_iter *iter,
                                  const uint8_t **out,
                                  size_t *out_len);

// Frees a list of connection ids. NULL is nothing to free.
void tack_connection_id_iter_free(struct tack_connection_id_iter *iter);

// Returns how many connection ids the peer has retired that tack_conn_retired_scid_iter has not told of.
size_t tack_conn_retired_scids(const struct tack_conn *conn);

// Returns how many connection ids of the peer are not used yet.
size_t tack_conn_available_dcids(const struct tack_conn *conn);

// Returns how many connection ids the peer still takes.
size_t tack_conn_scids_left(struct tack_conn *conn);

// Returns how many connection ids of this end the peer may use.
size_t tack_conn_active_scids(struct tack_conn *conn);

// Gives the peer another connection id with its stateless reset token of 16 bytes, and tells the sequence
// number. Returns 0 or an error.
int tack_conn_new_scid(struct tack_conn *conn,
                       const uint8_t *scid,
                       size_t scid_len,
                       const uint8_t *reset_token,
                       bool retire_if_needed,
                       uint64_t *scid_seq);

// Retires a connection id of the peer. Returns 0 or an error.
int tack_conn_retire_dcid(struct tack_conn *conn, uint64_t dcid_seq);

// Processes a datagram, which is decrypted in its place. Returns how much of it was processed, or an error:
// the next datagram may be better, and tack_conn_is_closed tells whether this was the end.
//
// Call tack_conn_send until TACK_ERR_DONE afterwards.
ssize_t tack_conn_recv(struct tack_conn *conn,
                       uint8_t *buf,
                       size_t buf_len,
                       const struct tack_recv_info *info);

// The same of a datagram that came with this ECN codepoint: the octet of IP_TOS or IPV6_TCLASS, of which the two
// lowest bits count.
ssize_t tack_conn_recv_with_ecn(struct tack_conn *conn,
                                uint8_t *buf,
                                size_t buf_len,
                                const struct tack_recv_info *info,
                                uint8_t ecn);

// The same of a datagram that came `age_nanos` ago, as the timestamps of a socket tell (SO_TIMESTAMPNS: the
// system's clock now, less the timestamp). What it has waited for the program is no delay of the path then.
// More than an hour counts as 0: so does a difference below zero, where the clock was set back meanwhile.
ssize_t tack_conn_recv_at(struct tack_conn *conn,
                          uint8_t *buf,
                          size_t buf_len,
                          const struct tack_recv_info *info,
                          uint8_t ecn,
                          uint64_t age_nanos);

// Writes a datagram to `out`, and where it goes to `out_info`. Returns its length, or TACK_ERR_DONE if there
// is nothing to send now: tack_conn_timeout_as_nanos tells until when, for sending is paced.
ssize_t tack_conn_send(struct tack_conn *conn,
                       uint8_t *out,
                       size_t out_len,
                       struct tack_send_info *out_info);

// The same for the path between two addresses; NULL is any.
ssize_t tack_conn_send_on_path(struct tack_conn *conn,
                               uint8_t *out,
                               size_t out_len,
                               const struct sockaddr *from,
                               socklen_t from_len,
                               const struct sockaddr *to,
                               socklen_t to_len,
                               struct tack_send_info *out_info);

// Returns how much may leave in one burst, bytes.
size_t tack_conn_send_quantum(const struct tack_conn *conn);

// Returns the same for the path between two addresses; 0 if there is none.
size_t tack_conn_send_quantum_on_path(const struct tack_conn *conn,
                                      const struct sockaddr *local_addr,
                                      socklen_t local_len,
                                      const struct sockaddr *peer_addr,
                                      socklen_t peer_len);

// Returns the longest datagram that is sent, bytes.
size_t tack_conn_max_send_udp_payload_size(const struct tack_conn *conn);

// Returns the time until tack_conn_on_timeout is to be called, nanoseconds; UINT64_MAX if there is none.
uint64_t tack_conn_timeout_as_nanos(const struct tack_conn *conn);

// Returns the same in milliseconds, cut off: 0 while there is less than one left. A program that waits in
// whole milliseconds waits for one more, or in nanoseconds with ppoll().
uint64_t tack_conn_timeout_as_millis(const struct tack_conn *conn);

// Handles timers that have expired. Call tack_conn_send until TACK_ERR_DONE afterwards.
void tack_conn_on_timeout(struct tack_conn *conn);

// Appends the connection's secrets to a file (NSS Key Log Format). The configuration has to say
// tack_config_log_keys. Returns false if the file cannot be opened.
bool tack_conn_set_keylog_path(struct tack_conn *conn, const char *path);

// The same with a file that is open: the descriptor becomes the connection's, which closes it.
// It is closed at once if there is no connection.
void tack_conn_set_keylog_fd(struct tack_conn *conn, int fd);

// Writes a qlog to a file that is not there yet; the layer's events are in it. The strings may be NULL. Returns
// false if the file cannot be made.
bool tack_conn_set_qlog_path(struct tack_conn *conn,
                             const char *path,
                             const char *log_title,
                             const char *log_desc);

// The same with a file that is open: the descriptor becomes the connection's, which closes it.
// It is closed at once if another argument is not valid.
void tack_conn_set_qlog_fd(struct tack_conn *conn,
                           int fd,
                           const char *log_title,
                           const char *log_desc);

// Tells what a live source adapts to. Before the handshake is done and with TACK_PROFILE_OFF it only counts.
// Returns 0 or an error: TACK_ERR_BUFFER_TOO_SHORT if `size` is not set.
int tack_conn_media_stats(const struct tack_conn *conn,
                          struct tack_media_stats *out);

// Returns `estimated_send_rate`, bytes per second, if it differs by more than a twentieth from what this
// function last returned, and 0 if not. To be asked after tack_conn_recv.
uint64_t tack_conn_send_rate_change(struct tack_conn *conn);

// Begins or ends to measure the path with packet trains, where the configuration has asked for them.
void tack_conn_set_packet_trains(struct tack_conn *conn,
                                 bool enabled);

// Sets that the data of a stream is worth nothing any more in `nanos` from now; TACK_NO_DEADLINE takes that
// back.
//
// If its end is not written then, some of it has not left, or is to be sent again, the stream is reset; one that has
// wholly left is reset as soon as some of it is lost, or when a probe timer expires. Nothing of it is sent or sent
// again, nothing is taken for it any more, what waits in the
// send buffer is dropped, and tack_conn_stream_expired_next tells. Of a stream that was reset for a probe it tells
// when some of it turns out to be lost, or nothing is heard of it until the next probe: it may have arrived, and then
// it has not expired.
//
// This holds for a deadline that is set before any of the stream leaves. Any other stream, and each with
// TACK_PROFILE_OFF, is reset at its deadline unless all of it is acknowledged, which quiche tells of unidirectional
// streams whose end was written, or nothing of the connection is unsent or in flight. Returns 0 or an error.
int tack_conn_set_stream_deadline(struct tack_conn *conn,
                                  uint64_t stream_id,
                                  uint64_t nanos);

// Returns the next stream that was reset because its deadline has passed, or -1. Each is told once. To be asked
// after tack_conn_recv, tack_conn_on_timeout and tack_conn_send.
int64_t tack_conn_stream_expired_next(struct tack_conn *conn);

// Has an ack-eliciting packet sent on the path that data goes over. Returns 0 or an error.
ssize_t tack_conn_send_ack_eliciting(struct tack_conn *conn);

// Has an ack-eliciting packet sent on the path between two addresses. Returns 0 or an error.
ssize_t tack_conn_send_ack_eliciting_on_path(struct tack_conn *conn,
                                             const struct sockaddr *local,
                                             socklen_t local_len,
                                             const struct sockaddr *peer,
                                             socklen_t peer_len);

// Has the path between two addresses validated, and tells the sequence number of the connection id that it uses.
// Returns 0 or an error.
int tack_conn_probe_path(struct tack_conn *conn,
                         const struct sockaddr *local,
                         socklen_t local_len,
                         const struct sockaddr *peer,
                         socklen_t peer_len,
                         uint64_t *seq);

// Goes on from another address of this end. Returns 0 or an error.
int tack_conn_migrate_source(struct tack_conn *conn,
                             const struct sockaddr *local,
                             socklen_t local_len,
                             uint64_t *seq);

// Goes on over the path between two addresses. Returns 0 or an error.
int tack_conn_migrate(struct tack_conn *conn,
                      const struct sockaddr *local,
                      socklen_t local_len,
                      const struct sockaddr *peer,
                      socklen_t peer_len,
                      uint64_t *seq);

// Returns the next event, to be freed with tack_path_event_free, or NULL.
struct tack_path_event *tack_conn_path_event_next(struct tack_conn *conn);

// Returns the kind of an event; -1 for NULL, and for kinds that this version does not know.
enum tack_path_event_type tack_path_event_type(const struct tack_path_event *ev);

// Tells the path of TACK_PATH_EVENT_NEW; writes nothing for events of other kinds.
void tack_path_event_new(const struct tack_path_event *ev,
                         struct sockaddr_storage *local,
                         socklen_t *local_len,
                         struct sockaddr_storage *peer,
                         socklen_t *peer_len);

// Tells the path of TACK_PATH_EVENT_VALIDATED; writes nothing for events of other kinds.
void tack_path_event_validated(const struct tack_path_event *ev,
                               struct sockaddr_storage *local,
                               socklen_t *local_len,
                               struct sockaddr_storage *peer,
                               socklen_t *peer_len);

// Tells the path of TACK_PATH_EVENT_FAILED_VALIDATION; writes nothing for events of other kinds.
void tack_path_event_failed_validation(const struct tack_path_event *ev,
                                       struct sockaddr_storage *local,
                                       socklen_t *local_len,
                                       struct sockaddr_storage *peer,
                                       socklen_t *peer_len);

// Tells the path of TACK_PATH_EVENT_CLOSED; writes nothing for events of other kinds.
void tack_path_event_closed(const struct tack_path_event *ev,
                            struct sockaddr_storage *local,
                            socklen_t *local_len,
                            struct sockaddr_storage *peer,
                            socklen_t *peer_len);

// Tells the path of TACK_PATH_EVENT_PEER_MIGRATED; writes nothing for events of other kinds.
void tack_path_event_peer_migrated(const struct tack_path_event *ev,
                                   struct sockaddr_storage *local,
                                   socklen_t *local_len,
                                   struct sockaddr_storage *peer,
                                   socklen_t *peer_len);

// Tells the connection id's sequence number and both paths of TACK_PATH_EVENT_REUSED_SOURCE_CONNECTION_ID; writes
// nothing for events of other kinds.
void tack_path_event_reused_source_connection_id(const struct tack_path_event *ev,
                                                 uint64_t *id,
                                                 struct sockaddr_storage *old_local,
                                                 socklen_t *old_local_len,
                                                 struct sockaddr_storage *old_peer,
                                                 socklen_t *old_peer_len,
                                                 struct sockaddr_storage *local,
                                                 socklen_t *local_len,
                                                 struct sockaddr_storage *peer,
                                                 socklen_t *peer_len);

// Tells the path of TACK_PATH_EVENT_PMTU_UPDATED and its path MTU, bytes; writes nothing for events of other
// kinds.
void tack_path_event_pmtu_updated(const struct tack_path_event *ev,
                                  struct sockaddr_storage *local,
                                  socklen_t *local_len,
                                  struct sockaddr_storage *peer,
                                  socklen_t *peer_len,
                                  size_t *pmtu);

// Frees an event. NULL is nothing to free.
void tack_path_event_free(struct tack_path_event *ev);

// Returns the peer's addresses to which there are paths from an address of this end, to be freed with
// tack_socket_addr_iter_free.
struct tack_socket_addr_iter *tack_conn_paths_iter(struct tack_conn *conn,
                                                   const struct sockaddr *from,
                                                   size_t from_len);

// Takes the next address of a list. Returns false behind the last one.
bool tack_socket_addr_iter_next(struct tack_socket_addr_iter *iter,
                                struct sockaddr_storage *peer,
                                size_t *peer_len);

// Frees a list of addresses. NULL is nothing to free.
void tack_socket_addr_iter_free(struct tack_socket_addr_iter *iter);

// Returns 1 if the path between two addresses is validated, 0 if not, or an error if there is none.
int tack_conn_is_path_validated(const struct tack_conn *conn,
                                const struct sockaddr *from,
                                size_t from_len,
                                const struct sockaddr *to,
                                size_t to_len);

// Closes the connection: `app` tells whether `err` is the application's code or one of QUIC's. It takes until
// tack_conn_is_closed, so go on with sending, receiving and timeouts. Returns 0 or an error: TACK_ERR_DONE if it
// is closed already.
int tack_conn_close(struct tack_conn *conn,
                    bool app,
                    uint64_t err,
                    const uint8_t *reason,
                    size_t reason_len);

// Whether the handshake is done.
bool tack_conn_is_established(const struct tack_conn *conn);

// Whether a stream or a DATAGRAM can be read.
bool tack_conn_is_readable(const struct tack_conn *conn);

// Whether the connection is closing, and sends nothing more.
bool tack_conn_is_draining(const struct tack_conn *conn);

// Whether the connection is closed; NULL is.
bool tack_conn_is_closed(const struct tack_conn *conn);

// Whether the idle timeout has closed it.
bool tack_conn_is_timed_out(const struct tack_conn *conn);

// Whether this is the server's end.
bool tack_conn_is_server(const struct tack_conn *conn);

// Returns how many bidirectional streams can be opened now.
uint64_t tack_conn_peer_streams_left_bidi(const struct tack_conn *conn);

// Returns how many unidirectional streams can be opened now.
uint64_t tack_conn_peer_streams_left_uni(const struct tack_conn *conn);

// Tells the error with which the peer has closed the connection. Returns false if it has not.
bool tack_conn_peer_error(const struct tack_conn *conn,
                          bool *is_app,
                          uint64_t *error_code,
                          const uint8_t **reason,
                          size_t *reason_len);

// Tells the error with which this end has closed the connection. Returns false if it has not.
bool tack_conn_local_error(const struct tack_conn *conn,
                           bool *is_app,
                           uint64_t *error_code,
                           const uint8_t **reason,
                           size_t *reason_len);

// Tells the statistics of a connection.
void tack_conn_stats(const struct tack_conn *conn, struct tack_stats *out);

// Tells the statistics of a path by its number, below `paths_count` of struct tack_stats. Returns 0 or an error:
// TACK_ERR_DONE if there is no such path.
int tack_conn_path_stats(const struct tack_conn *conn,
                         size_t idx,
                         struct tack_path_stats *out);

// Reads from a stream, and tells whether that is its end. Returns how much was read, or an error;
// `out_error_code` is written with TACK_ERR_STREAM_RESET alone.
ssize_t tack_conn_stream_recv(struct tack_conn *conn,
                              uint64_t stream_id,
                              uint8_t *out,
                              size_t buf_len,
                              bool *fin,
                              uint64_t *out_error_code);

// Writes to a stream, and ends it if `fin` is true and all was taken. Returns how much was taken, which may be
// less than all, or an error: TACK_ERR_DONE if there is no room. `out_error_code` is written with
// TACK_ERR_STREAM_STOPPED alone.
ssize_t tack_conn_stream_send(struct tack_conn *conn,
                              uint64_t stream_id,
                              const uint8_t *buf,
                              size_t buf_len,
                              bool fin,
                              uint64_t *out_error_code);

// Sets the priority of a stream: a lower urgency goes first, incremental streams of one urgency take turns.
// Returns 0 or an error.
int tack_conn_stream_priority(struct tack_conn *conn,
                              uint64_t stream_id,
                              uint8_t urgency,
                              bool incremental);

// Ends reading from a stream or writing to it (enum tack_shutdown); the peer hears `err`. Returns 0 or an error.
int tack_conn_stream_shutdown(struct tack_conn *conn,
                              uint64_t stream_id,
                              enum tack_shutdown direction,
                              uint64_t err);

// Returns how much a stream takes now, bytes, or an error.
ssize_t tack_conn_stream_capacity(struct tack_conn *conn, uint64_t stream_id);

// Whether there is something to read from a stream.
bool tack_conn_stream_readable(const struct tack_conn *conn, uint64_t stream_id);

// Returns the next stream that can be read, or -1. Each is told once until it is read to its end.
int64_t tack_conn_stream_readable_next(struct tack_conn *conn);

// Returns 1 if a stream takes `len` bytes, 0 if not yet, or an error.
int tack_conn_stream_writable(struct tack_conn *conn, uint64_t stream_id, size_t len);

// Returns the next stream that can be written, or -1. Each is told once until it is written.
int64_t tack_conn_stream_writable_next(struct tack_conn *conn);

// Whether all of a stream was read.
bool tack_conn_stream_finished(const struct tack_conn *conn, uint64_t stream_id);

// Whether the peer has all of a stream that this end has written to its end.
bool tack_conn_stream_delivered(struct tack_conn *conn, uint64_t stream_id);

// Returns the next stream that the peer has stopped reading, or -1. Each is told once.
int64_t tack_conn_stream_stopped_next(struct tack_conn *conn);

// Returns the next stream that had been refused for want of room in the send buffer and has some again, or -1.
int64_t tack_conn_stream_unblocked_next(struct tack_conn *conn);

// Returns the streams that can be read, to be freed with tack_stream_iter_free.
struct tack_stream_iter *tack_conn_readable(const struct tack_conn *conn);

// Returns the streams that can be written, to be freed with tack_stream_iter_free.
struct tack_stream_iter *tack_conn_writable(const struct tack_conn *conn);

// Takes the next stream of a list. Returns false behind the last one.
bool tack_stream_iter_next(struct tack_stream_iter *iter, uint64_t *stream_id);

// Frees a list of streams. NULL is nothing to free.
void tack_stream_iter_free(struct tack_stream_iter *iter);

// Whether both ends speak TACK. False until the handshake is done.
bool tack_conn_is_tack(const struct tack_conn *conn);

// Tells what the layer has measured and done; all zero before the handshake is done and with
// TACK_PROFILE_OFF. Returns 0 or an error: TACK_ERR_BUFFER_TOO_SHORT if `size` is not set.
int tack_conn_stats_tack(const struct tack_conn *conn, struct tack_stats_tack *out);

// Has datagrams marked (enum tack_ecn), from the handshake on: to be called right after the connection is made.
// The program sets the codepoint that tack_conn_send_ecn tells for each. Returns 0 or an error.
int tack_conn_set_ecn(struct tack_conn *conn,
                      enum tack_ecn ecn);

// Returns the ECN codepoint of the datagram that tack_conn_send has written last: the two lowest bits of IP_TOS
// or IPV6_TCLASS.
uint8_t tack_conn_send_ecn(const struct tack_conn *conn);

// Initiates a key update (RFC 9001 section 6); the layer does so by itself in time. Returns 0 or an error.
int tack_conn_initiate_key_update(struct tack_conn *conn);

// Writes what the connection has observed of the path, for the next connection between the same addresses (Careful
// Resume, RFC 9959). Returns its length, TACK_ERR_DONE if there is nothing to keep, or an error;
// TACK_CC_PARAMETERS_LEN bytes are enough.
ssize_t tack_conn_cc_parameters(const struct tack_conn *conn,
                                uint8_t *out,
                                size_t out_len);

// Offers what tack_conn_cc_parameters of an earlier connection between the same addresses has written. One
// connection at a time may use it. Returns 1 if it is used, 0 if it is refused because it is old or
// impossible, or an error.
int tack_conn_set_cc_parameters(struct tack_conn *conn,
                                const uint8_t *buf,
                                size_t buf_len);

// Creates a receiver of frames for one connection.
struct tack_frame_receiver *tack_frame_receiver_new(void);

// Frees a receiver of frames, and the payload that it has handed out last. NULL is nothing to free.
void tack_frame_receiver_free(struct tack_frame_receiver *receiver);

// Reads all that has come on the peer's unidirectional streams; others are left to the program. To be called after
// tack_conn_recv, and again when 64 MiB of frames or 4,096 events had been waiting: it reads nothing until then.
// Returns 0 or an error.
int tack_frame_receiver_read(struct tack_frame_receiver *receiver,
                             struct tack_conn *conn);

// Tells what tack_frame_receiver_read has seen: a frame, or one that will not come. Frames are told as they come,
// which need not be in the order of their numbers. Each event is told once. Returns 0 or an error: TACK_ERR_DONE if
// there is no event, TACK_ERR_BUFFER_TOO_SHORT if `size` is not set.
int tack_frame_receiver_next(struct tack_frame_receiver *receiver,
                             struct tack_frame_receiver_event *out);

// Creates a sender of frames for one connection. It opens the unidirectional streams of this end, in their order;
// the first `first_stream` of them it leaves to the program. Returns NULL if there are not so many.
struct tack_frame_sender *tack_frame_sender_new(uint64_t first_stream);

// Frees a sender of frames. What it has not sent is lost. NULL is nothing to free.
void tack_frame_sender_free(struct tack_frame_sender *sender);

// Begins the stream of each frame with these bytes, which a protocol between QUIC and the frames may want. A receiver
// of frames expects none. Returns 0 or an error.
int tack_frame_sender_set_preamble(struct tack_frame_sender *sender,
                                   const uint8_t *preamble,
                                   size_t preamble_len);

// Takes a frame, and writes what the connection takes of it now. The payload is copied.
//
// The frame was captured `age` nanoseconds ago, and is worth nothing from `deadline` nanoseconds on, counted from now;
// TACK_NO_DEADLINE is for one that stays worth something. `layer` is that of a scalable encoder, or 0. `depends_on` is
// the number of the frame without which it cannot be shown, or TACK_NO_FRAME.
//
// Returns the number of the frame: they begin at 0 and go up by one. What becomes of it tack_frame_sender_next tells.
// Or returns an error: TACK_ERR_INVALID_ARGUMENT if it is longer than TACK_MAX_FRAME_LEN, or depends on a frame that
// has not been sent; TACK_ERR_DONE if 512 frames or 32 MiB wait: the frame has no number, and can be given again when
// some have left; TACK_ERR_INVALID_STATE if the connection is over.
int64_t tack_frame_sender_send(struct tack_frame_sender *sender,
                               struct tack_conn *conn,
                               enum tack_frame_kind kind,
                               uint8_t layer,
                               uint64_t age,
                               uint64_t deadline,
                               uint64_t depends_on,
                               const uint8_t *payload,
                               size_t payload_len);

// Writes what the connection takes of the frames that wait, and drops what is too late. To be called after
// tack_conn_recv and tack_conn_on_timeout. Returns 0 or an error: TACK_ERR_INVALID_STATE if the connection is over.
int tack_frame_sender_flush(struct tack_frame_sender *sender,
                            struct tack_conn *conn);

// Tells what has become of a frame. Each event is told once; of more than 4,096 that were not asked for the last ones
// are. tack_conn_stream_expired_next is not to be asked beside it: events tell of all streams. Returns 0 or an error:
// TACK_ERR_DONE if there is no event, TACK_ERR_BUFFER_TOO_SHORT if `size` is not set.
int tack_frame_sender_next(struct tack_frame_sender *sender,
                           struct tack_frame_sender_event *out);

// Tells the statistics of a sender of frames. Returns 0 or an error: TACK_ERR_BUFFER_TOO_SHORT if `size` is not set.
int tack_frame_sender_stats(const struct tack_frame_sender *sender,
                            struct tack_frame_stats *out);

// Creates an HTTP/3 connection over a QUIC connection that is established or in early data, or returns NULL.
struct tack_h3_conn *tack_h3_conn_new_with_transport(struct tack_conn *quic_conn,
                                                     struct tack_h3_config *config);

// Frees an HTTP/3 connection. NULL is nothing to free.
void tack_h3_conn_free(struct tack_h3_conn *conn);

// Calls `cb` for each setting of the peer, until it returns another value than 0, which is returned then.
// Returns 0 behind the last one, and -1 before the settings have come.
int tack_h3_for_each_setting(struct tack_h3_conn *conn,
                             int (*cb)(uint64_t identifier, uint64_t value, void *argp),
                             void *argp);

// Whether the peer takes extended CONNECT (RFC 9220).
bool tack_h3_extended_connect_enabled_by_peer(struct tack_h3_conn *conn);

// Whether the peer takes HTTP/3 datagrams (RFC 9297).
bool tack_h3_dgram_enabled_by_peer(struct tack_h3_conn *conn, struct tack_conn *quic_conn);

// Tells the statistics of an HTTP/3 connection.
void tack_h3_conn_stats(const struct tack_h3_conn *conn, struct tack_h3_stats *out);

// Creates a configuration of HTTP/3, or returns NULL.
struct tack_h3_config *tack_h3_config_new(void);

// Frees a configuration. NULL is nothing to free.
void tack_h3_config_free(struct tack_h3_config *config);

// Sets SETTINGS_MAX_FIELD_SECTION_SIZE, bytes. More than 2^62 - 1 counts as that.
void tack_h3_config_set_max_field_section_size(struct tack_h3_config *config, uint64_t v);

// Sets SETTINGS_QPACK_MAX_TABLE_CAPACITY, bytes. More than 2^62 - 1 counts as that.
void tack_h3_config_set_qpack_max_table_capacity(struct tack_h3_config *config, uint64_t v);

// Sets SETTINGS_QPACK_BLOCKED_STREAMS. More than 2^62 - 1 counts as that.
void tack_h3_config_set_qpack_blocked_streams(struct tack_h3_config *config, uint64_t v);

// Sets SETTINGS_ENABLE_CONNECT_PROTOCOL (RFC 9220).
void tack_h3_config_enable_extended_connect(struct tack_h3_config *config, bool enabled);

// Sets the longest field value of a PRIORITY_UPDATE frame that is taken, bytes.
void tack_h3_config_set_max_priority_update_size(struct tack_h3_config *config, uint64_t v);

// Reads what has come. Returns the stream of the next event, which is written to `ev` and to be freed with
// tack_h3_event_free, or an error: TACK_H3_ERR_DONE if there is no event.
int64_t tack_h3_conn_poll(struct tack_h3_conn *conn,
                          struct tack_conn *quic_conn,
                          struct tack_h3_event **ev);

// Returns the kind of an event; -1 for NULL.
enum tack_h3_event_type tack_h3_event_type(struct tack_h3_event *ev);

// Calls `cb` for each header field of TACK_H3_EVENT_HEADERS, until it returns another value than 0, which is
// returned then. It may not change them. Returns 0 behind the last one.
int tack_h3_event_for_each_header(struct tack_h3_event *ev,
                                  int (*cb)(uint8_t *name,
                                            size_t name_len,
                                            uint8_t *value,
                                            size_t value_len,
                                            void *argp),
                                  void *argp);

// Whether more comes on the stream behind TACK_H3_EVENT_HEADERS.
bool tack_h3_event_headers_has_more_frames(struct tack_h3_event *ev);

// Frees an event. NULL is nothing to free.
void tack_h3_event_free(struct tack_h3_event *ev);

// Sends a request, and ends it if `fin` is true. Returns its stream, or an error: TACK_H3_ERR_STREAM_BLOCKED if
// there is no room yet.
int64_t tack_h3_send_request(struct tack_h3_conn *conn,
                             struct tack_conn *quic_conn,
                             const struct tack_h3_header *headers,
                             size_t headers_len,
                             bool fin);

// Sends the header fields of a response, and ends it if `fin` is true. Returns 0 or an error.
int tack_h3_send_response(struct tack_h3_conn *conn,
                          struct tack_conn *quic_conn,
                          uint64_t stream_id,
                          const struct tack_h3_header *headers,
                          size_t headers_len,
                          bool fin);

// The same with a priority.
int tack_h3_send_response_with_priority(struct tack_h3_conn *conn,
                                        struct tack_conn *quic_conn,
                                        uint64_t stream_id,
                                        const struct tack_h3_header *headers,
                                        size_t headers_len,
                                        struct tack_h3_priority *priority,
                                        bool fin);

// Sends trailers, or further header fields. Returns 0 or an error.
int tack_h3_send_additional_headers(struct tack_h3_conn *conn,
                                    struct tack_conn *quic_conn,
                                    uint64_t stream_id,
                                    const struct tack_h3_header *headers,
                                    size_t headers_len,
                                    bool is_trailer_section,
                                    bool fin);

// Sends a part of a body, and ends it if `fin` is true and all was taken. Returns how much was taken, which may
// be less than all, or an error: TACK_H3_ERR_DONE if there is no room.
ssize_t tack_h3_send_body(struct tack_h3_conn *conn,
                          struct tack_conn *quic_conn,
                          uint64_t stream_id,
                          const uint8_t *body,
                          size_t body_len,
                          bool fin);

// Reads from a body. Returns how much was read, or an error: TACK_H3_ERR_DONE if there is nothing yet.
ssize_t tack_h3_recv_body(struct tack_h3_conn *conn,
                          struct tack_conn *quic_conn,
                          uint64_t stream_id,
                          uint8_t *out,
                          size_t out_len);

// Sends GOAWAY: no requests from `id` on are answered. Returns 0 or an error.
int tack_h3_send_goaway(struct tack_h3_conn *conn, struct tack_conn *quic_conn, uint64_t id);

// Reads the value of a Priority header field. Returns 0 or an error.
int tack_h3_parse_extensible_priority(uint8_t *priority,
                                      size_t priority_len,
                                      struct tack_h3_priority *parsed);

// Sends the priority of a request (PRIORITY_UPDATE). Returns 0 or an error.
int tack_h3_send_priority_update_for_request(struct tack_h3_conn *conn,
                                             struct tack_conn *quic_conn,
                                             uint64_t stream_id,
                                             struct tack_h3_priority *priority);

// Calls `cb` with the field value of the last PRIORITY_UPDATE for a request. Returns what `cb` returns, or an
// error.
int tack_h3_take_last_priority_update(struct tack_h3_conn *conn,
                                      uint64_t prioritized_element_id,
                                      int (*cb)(uint8_t *priority_field_value,
                                                uint64_t priority_field_value_len,
                                                void *argp),
                                      void *argp);

// Returns the library's version, a string that need not be freed.
const char *tack_version(void);

// Has `cb` called with each line of the log and `argp`, from now to the end of the process and from each
// thread that calls the library. Returns 0, or -1 if there is a log already.
int tack_enable_debug_logging(void (*cb)(const char *line, void *argp),
                              void *argp);

// Writes a variable-length integer (RFC 9000 section 16) to `buf`. Returns 0 or an error: there are 8 bytes
// at most, and `val` is below 2^62.
int tack_put_varint(uint8_t *buf,
                    size_t buf_len,
                    uint64_t val);

// Reads a variable-length integer from `buf` into `val`. Returns its length, or an error.
ssize_t tack_get_varint(const uint8_t *buf, size_t buf_len, uint64_t *val);

// Reads the header of the first packet in a datagram.
//
// `dcil` is the length of the connection ids that this end gives out: short headers do not tell it. Each
// `..._len` is the room there is, and becomes the length of what was written. `type` becomes 1 for Initial,
// 2 Retry, 3 Handshake, 4 0-RTT, 5 a short header, 6 Version Negotiation. Returns 0 or an error, and nothing
// is written then.
int tack_header_info(const uint8_t *buf,
                     size_t buf_len,
                     size_t dcil,
                     uint32_t *version,
                     uint8_t *type,
                     uint8_t *scid,
                     size_t *scid_len,
                     uint8_t *dcid,
                     size_t *dcid_len,
                     uint8_t *token,
                     size_t *token_len);

// Writes a Version Negotiation packet to `out`, to a client whose Initial had these connection ids. Returns
// its length, or an error.
ssize_t tack_negotiate_version(const uint8_t *scid,
                               size_t scid_len,
                               const uint8_t *dcid,
                               size_t dcid_len,
                               uint8_t *out,
                               size_t out_len);

// Writes a Retry packet to `out`, to a client whose Initial had these connection ids; it answers with
// `token`, to `new_scid`. Returns the packet's length, or an error.
ssize_t tack_retry(const uint8_t *scid,
                   size_t scid_len,
                   const uint8_t *dcid,
                   size_t dcid_len,
                   const uint8_t *new_scid,
                   size_t new_scid_len,
                   const uint8_t *token,
                   size_t token_len,
                   uint32_t version,
                   uint8_t *out,
                   size_t out_len);

// Whether connections of this QUIC version can be had.
bool tack_version_is_supported(uint32_t version);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TACKLIB_H */
