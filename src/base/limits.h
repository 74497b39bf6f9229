/* Every limit of the project in one table: name, value, reason. */
#ifndef BH_BASE_LIMITS_H
#define BH_BASE_LIMITS_H

#define BH_JSON_DEPTH_MAX 512              /* nesting; upstream's decoder stops at 10,000, no real object passes 100 */
#define BH_BODY_BYTES_MAX (3u << 20)       /* request body: upstream's limit for API writes */
#define BH_OBJECT_BYTES_MAX (1572864u)     /* encoded object: etcd's default request limit (1.5 MiB) */
#define BH_URL_BYTES_MAX (16u << 10)       /* request line; selectors can be long */
#define BH_HEADER_BYTES_MAX (64u << 10)    /* all headers of one request */
#define BH_HEADERS_MAX 128                 /* count of headers */
#define BH_CONNS_MAX 20000                 /* connections a server holds open */
#define BH_WATCH_QUEUE_BYTES_MAX (32u << 20) /* unsent bytes of one slow watcher before it is cut */
#define BH_WATCHERS_MAX 20000              /* watches of one server */
#define BH_EVENT_WINDOW 20000              /* watch events kept in memory; older ones come from the store */
#define BH_COMMIT_QUEUE_MAX 20000          /* writes waiting for the store before 429 */
#define BH_COMMIT_BATCH_MAX 1024           /* writes in one store transaction */
#define BH_GRPC_MESSAGE_MAX (16u << 20)    /* one gRPC message; upstream's CRI client limit */
#define BH_STREAMS_MAX 1000                /* HTTP/2 streams of one connection */
#define BH_MESSAGE_BYTES_MAX 1024          /* condition and event messages that explain */
#define BH_CEL_EXPR_BYTES_MAX 10240        /* upstream */
#define BH_CEL_DEPTH_MAX 250               /* nesting of a CEL expression: upstream's parser limit */

#endif
