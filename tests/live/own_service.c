/* A service of 5 ms of work a reply, as a user might have one: `own-service ADDRESS PORT [background]`. */

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char REPLY[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nserved";

/* 5 ms of this process's CPU, however it is disturbed meanwhile. */
static void work(void) {
    struct timespec begin, now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    do
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000000000L + now.tv_nsec - begin.tv_nsec < 5000000L);
}

/* One request at a time, as clients send them. */
static void serve(int connection) {
    char request[8192];
    size_t length = 0;
    ssize_t got;
    while ((got = read(connection, request + length, sizeof request - 1 - length)) > 0) {
        length += got;
        request[length] = 0;
        if (!strstr(request, "\r\n\r\n"))
            continue;
        if (strncmp(request, "GET /healthz", 12))
            work();
        if (write(connection, REPLY, sizeof REPLY - 1) < 0)
            break;
        length = 0;
    }
    exit(0);
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: own-service ADDRESS PORT [background]\n");
        return 2;
    }
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[2]))};
    inet_pton(AF_INET, argv[1], &address.sin_addr);
    int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 128)) {
        perror(argv[1]);
        return 1;
    }
    if (argc > 3 && (fork() || setsid() < 0))
        return 0;
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        int connection = accept(listener, 0, 0);
        if (connection >= 0 && !fork())
            serve(connection);
        close(connection);
    }
}
