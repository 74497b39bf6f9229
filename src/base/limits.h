/* Every limit of the project in one table: name, value, reason. */
#ifndef BH_BASE_LIMITS_H
#define BH_BASE_LIMITS_H

/* nesting; upstream's decoder stops at 10,000, no real object passes 100 */
#define BH_JSON_DEPTH_MAX 512

/* request body: upstream's limit for API writes */
#define BH_BODY_BYTES_MAX (3u << 20)

/* encoded object: etcd's default request limit (1.5 MiB) */
#define BH_OBJECT_BYTES_MAX (1572864u)

/* bodies of all requests of one server that are in memory at once: more is told to come again */
#define BH_BODIES_BYTES_MAX (512u << 20)

/* request line; selectors can be long */
#define BH_URL_BYTES_MAX (16u << 10)

/* all headers of one request */
#define BH_HEADER_BYTES_MAX (64u << 10)

/* count of headers */
#define BH_HEADERS_MAX 128

/* connections a server holds open */
#define BH_CONNS_MAX 20000

/* unsent bytes of one slow watcher before it is cut */
#define BH_WATCH_QUEUE_BYTES_MAX (32u << 20)

/* watches of one server */
#define BH_WATCHERS_MAX 20000

/* watch events kept in memory; older ones are read from the store */
#define BH_EVENT_WINDOW 20000

/* bytes of the events that all windows together keep in memory, whatever their count */
#define BH_EVENT_WINDOW_BYTES (64u << 20)

/* events of a resource that stay beyond those bytes: a watch that reconnects at once goes on */
#define BH_EVENT_WINDOW_MIN 64

/* events that the store keeps, whatever their age: more than any window holds */
#define BH_HISTORY_EVENTS_MAX 100000

/* writes waiting for the store before 429 */
#define BH_COMMIT_QUEUE_MAX 20000

/* bytes of the objects that wait for the store before 429: a writer may send the largest objects */
#define BH_COMMIT_QUEUE_BYTES_MAX (256u << 20)

/* bytes of objects in one store transaction, so that none keeps others waiting long */
#define BH_COMMIT_BATCH_BYTES_MAX (16u << 20)

/* writes in one store transaction */
#define BH_COMMIT_BATCH_MAX 1024

/* so many waiting writes go into one store transaction; of more, half at a time */
#define BH_COMMIT_BATCH_WHOLE 128

/* so many waiting writes begin a store transaction before the loop has ended its round */
#define BH_COMMIT_BATCH_EARLY 64

/* one gRPC message; upstream's CRI client limit */
#define BH_GRPC_MESSAGE_MAX (16u << 20)

/* request bytes one gRPC connection may hold in memory */
#define BH_GRPC_CONN_BYTES_MAX (64u << 20)

/* HTTP/2 streams of one connection */
#define BH_STREAMS_MAX 1000

/* … of a client of an HTTP server: as Go's server; clients open a second connection */
#define BH_HTTP_STREAMS_MAX 250

/* queued bytes of a stream: on_drain below this … */
#define BH_STREAM_LOW_BYTES (64u << 10)

/* … after more than this */
#define BH_STREAM_HIGH_BYTES (1u << 20)

/* unsent bytes of one stream, referenced blocks included; beyond it is cut */
#define BH_STREAM_QUEUE_BYTES_MAX (1u << 30)

/* time to send what is queued when a stream is closed */
#define BH_STREAM_LINGER_MS 30000

/* name, connection and TLS handshake together */
#define BH_CONNECT_TIMEOUT_MS 10000

/* of an accepted connection */
#define BH_TLS_HANDSHAKE_TIMEOUT_MS 10000

/* upstream's ReadHeaderTimeout */
#define BH_HTTP_HEADER_TIMEOUT_MS 32000

/* without a byte of an announced body */
#define BH_HTTP_BODY_TIMEOUT_MS 60000

/* upstream's IdleTimeout */
#define BH_HTTP_IDLE_TIMEOUT_MS 90000

/* a peer that takes nothing of what is queued */
#define BH_HTTP_WRITE_TIMEOUT_MS 60000

/* bytes read ahead of the request being answered */
#define BH_HTTP_PIPELINE_BYTES_MAX (128u << 10)

/* whole response kept in memory by the client */
#define BH_HTTP_RESPONSE_BYTES_MAX (256u << 20)

/* chunk size line with extensions */
#define BH_HTTP_CHUNK_LINE_MAX 256

/* threads of a loop's worker pool */
#define BH_WORKERS_MAX 8

/* condition and event messages that explain */
#define BH_MESSAGE_BYTES_MAX 1024

/* claims that one node holds: far beyond the pods it can run */
#define BH_DRA_CLAIMS_MAX 10000

/* upstream */
#define BH_CEL_EXPR_BYTES_MAX 10240

/* nesting of a CEL expression: upstream's parser limit */
#define BH_CEL_DEPTH_MAX 250

/* one unpacked image layer: stops decompression bombs, above any real one */
#define BH_LAYER_BYTES_MAX ((int64_t)64 << 30)

/* entries of one layer or image archive */
#define BH_LAYER_ENTRIES_MAX 4000000

/* layers of an image: their names must fit one page of mount options */
#define BH_IMAGE_LAYERS_MAX 110

/* an image's manifest or configuration: upstream's limit for manifests */
#define BH_IMAGE_CONFIG_MAX (4 << 20)

#endif
