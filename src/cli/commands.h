/* Commands that live in cli/. Each is a main(): argv[0] is the command's name. Exit status 0, 1 on
 * failure, 2 on wrong arguments. */
#ifndef BH_CLI_COMMANDS_H
#define BH_CLI_COMMANDS_H

int bh_device_main(int argc, char **argv);
int bh_image_main(int argc, char **argv);
int bh_cel_main(int argc, char **argv);
int bh_allocate_main(int argc, char **argv);

#endif
