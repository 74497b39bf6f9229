/* `bulkhead image import|list|rm`: the images of a cluster's node, whether or not its server runs.
 *
 *     bulkhead image import [--name NAME] FILE…
 *     bulkhead image list [-o json]
 *     bulkhead image rm NAME…
 *
 * The cluster is found by --data-dir or BULKHEAD_DATA_DIR. argv[0] is "image". Returns the process'
 * exit code.
 */
#ifndef BH_CLI_IMAGE_CMD_H
#define BH_CLI_IMAGE_CMD_H

int bh_image_main(int argc, char **argv);

#endif
