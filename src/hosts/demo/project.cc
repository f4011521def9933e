// SPDX-License-Identifier: Apache-2.0
#include "demo/project.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace errand::demo {
namespace {

constexpr std::string_view words_h = R"(/* Counting words in a text. */
#ifndef WORDS_H
#define WORDS_H
#include <stddef.h>

size_t count_words(const char *text, size_t length);
size_t longest_word(const char *text, size_t length);

#endif
)";

constexpr std::string_view words_c = R"(#include "words.h"

static int is_blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

/* TODO: count words in scripts that use no blanks */
size_t count_words(const char *text, size_t length) {
  size_t words = 0;
  int inside = 0;
  for (size_t i = 0; i < length; i++) {
    if (is_blank(text[i])) {
      inside = 0;
    } else if (!inside) {
      inside = 1;
      words++;
    }
  }
  return words;
}

size_t longest_word(const char *text, size_t length) {
  size_t longest = 0, now = 0;
  for (size_t i = 0; i < length; i++) {
    now = is_blank(text[i]) ? 0 : now + 1;
    if (now > longest) longest = now;
  }
  return longest;
}
)";

// Random texts against a slow and plain reference, for a fixed time a suite: the number of cases is the machine's.
constexpr std::string_view test_words_c = R"(#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "words.h"

static const double seconds = 1.3;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static size_t slow_count(const char *text) {
  char copy[256];
  size_t words = 0;
  strcpy(copy, text);
  for (char *word = strtok(copy, " \t\n"); word; word = strtok(NULL, " \t\n")) words++;
  return words;
}

static size_t slow_longest(const char *text) {
  char copy[256];
  size_t longest = 0;
  strcpy(copy, text);
  for (char *word = strtok(copy, " \t\n"); word; word = strtok(NULL, " \t\n"))
    if (strlen(word) > longest) longest = strlen(word);
  return longest;
}

static void suite(const char *name, const char *letters, size_t most) {
  long cases = 0;
  for (double end = now() + seconds; now() < end; cases++) {
    char text[256];
    size_t length = (size_t)rand() % most;
    for (size_t i = 0; i < length; i++) text[i] = letters[(size_t)rand() % strlen(letters)];
    text[length] = 0;
    if (count_words(text, length) != slow_count(text) || longest_word(text, length) != slow_longest(text)) {
      printf("FAILED %s: \"%s\"\n", name, text);
      exit(1);
    }
  }
  printf("ok  %-22s %ld cases\n", name, cases);
  fflush(stdout);
}

int main(void) {
  suite("empty and tiny texts", "a ", 3);
  suite("single words", "abcxyz", 200);
  suite("blanks of every kind", "ab \t\n", 200);
  suite("mostly blanks", "a         \t\n", 250);
  suite("long words", "abcdefghijklmnopqrstuvwxyz ", 250);
  suite("punctuation", "a,.;:-!? ", 120);
  puts("6 suites passed");
  return 0;
}
)";

constexpr std::string_view run_tests_sh = R"(# Builds the tests and runs them.
set -e
cc=$(command -v cc || command -v gcc || command -v clang)
mkdir -p build
echo "compiling"
"$cc" -D_POSIX_C_SOURCE=200809L -O1 -Isrc -o build/test_words tests/test_words.c src/words.c
echo "running"
exec ./build/test_words
)";

constexpr std::string_view server_c =
    R"(/* A page for the project, on a free port of the loopback; "server get PATH" fetches from it. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* TODO: serve the files of www/ */
static const char answer[] =
    "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nhello from the dev server\n";

static int serve(int listener, struct sockaddr_in *address) {
  socklen_t size = sizeof *address;
  FILE *file;
  address->sin_port = 0;
  if (bind(listener, (struct sockaddr *)address, size) != 0 || listen(listener, 8) != 0 ||
      getsockname(listener, (struct sockaddr *)address, &size) != 0)
    return perror("dev server"), 1;
  printf("dev server on http://127.0.0.1:%d/\n", ntohs(address->sin_port));
  fflush(stdout);
  if (!(file = fopen(".port.new", "w"))) return perror(".port.new"), 1;
  fprintf(file, "%d\n", ntohs(address->sin_port));
  fclose(file);
  if (rename(".port.new", ".port") != 0) return perror(".port"), 1;
  for (;;) {
    char request[1024];
    int client = accept(listener, NULL, NULL);
    ssize_t got = client < 0 ? -1 : read(client, request, sizeof request - 1);
    if (got > 0) {
      request[got] = 0;
      request[strcspn(request, "\r\n")] = 0;
      printf("%s\n", request);
      fflush(stdout);
      if (write(client, answer, sizeof answer - 1) < 0) perror("write");
    }
    if (client >= 0) close(client);
  }
}

static int get(int server, struct sockaddr_in *address, const char *path) {
  char buffer[1024];
  int port = 0;
  FILE *file = fopen(".port", "r");
  if (!file || fscanf(file, "%d", &port) != 1) return perror(".port"), 1;
  fclose(file);
  address->sin_port = htons((unsigned short)port);
  if (connect(server, (struct sockaddr *)address, sizeof *address) != 0) return perror("connect"), 1;
  int length = snprintf(buffer, sizeof buffer, "GET %s HTTP/1.0\r\n\r\n", path);
  if (write(server, buffer, (size_t)length) != length) return perror("write"), 1;
  for (ssize_t got; (got = read(server, buffer, sizeof buffer)) > 0;) fwrite(buffer, 1, (size_t)got, stdout);
  return 0;
}

int main(int count, char **arguments) {
  struct sockaddr_in address = {0};
  int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return count > 2 && !strcmp(arguments[1], "get") ? get(descriptor, &address, arguments[2]) : serve(descriptor, &address);
}
)";

constexpr std::string_view dev_sh = R"(# Builds the dev server and runs it.
set -e
cc=$(command -v cc || command -v gcc || command -v clang)
mkdir -p build
rm -f .port
"$cc" -D_POSIX_C_SOURCE=200809L -O1 -o build/server src/server.c
exec ./build/server
)";

constexpr std::string_view get_sh = R"(# Fetches a page from the dev server, once it is up.
tries=0
until [ -s .port ] || [ $tries -ge 200 ]; do tries=$((tries + 1)); sleep 0.1; done
exec ./build/server get "${1:-/}"
)";

// Each turn is chosen by what the model has just been told, so the script follows what really happens.
constexpr std::string_view script = R"({"turns": [
  {"when": "(?m)^Run all the tests", "delay_ms": 500,
   "text": "I run the tests in the background and look for TODOs meanwhile.",
   "tools": [{"name": "background_bash", "input": {"command": "sh run-tests.sh"}},
             {"name": "bash", "input": {"command": "grep -rn TODO src"}}]},
  {"when": "Background task started: bg-1", "delay_ms": 500,
   "text": "The tests are running (bg-1), and there are two TODOs in src. I will report when the tests are through."},
  {"when": "(?s)<task-id>bg-1</task-id>.*<status>", "delay_ms": 400,
   "text": "bg-1 has ended. I look at what it printed.",
   "tools": [{"name": "background_output", "input": {"task_id": "bg-1", "tail_lines": 4}}]},
  {"when": "Task bg-1 is COMPLETED", "delay_ms": 500,
   "text": "All tests passed (exit code 0)."},
  {"when": "Task bg-1 is", "text": "The tests failed; see their output above."},
  {"when": "(?m)^Start the dev server", "delay_ms": 500,
   "text": "It goes on for as long as you want it, so it runs in the background.",
   "tools": [{"name": "background_bash", "input": {"command": "sh dev.sh", "description": "dev server"}}]},
  {"when": "Background task started: bg-2", "delay_ms": 400,
   "text": "Started as bg-2. I ask it for a page.",
   "tools": [{"name": "bash", "input": {"command": "sh get.sh /"}}]},
  {"when": "hello from the dev server", "delay_ms": 400,
   "tools": [{"name": "background_output", "input": {"task_id": "bg-2"}}]},
  {"when": "Task bg-2 is RUNNING", "delay_ms": 400,
   "text": "It answers, and its log shows the request."},
  {"when": "(?m)^Good, stop it", "delay_ms": 400,
   "tools": [{"name": "background_stop", "input": {"task_id": "bg-2"}}]},
  {"when": "Task bg-2 stopped", "delay_ms": 400,
   "text": "The dev server is stopped, and its port is free again."}
]}
)";

std::string write_file(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file ? "" : "cannot write \"" + path + "\": " + std::strerror(errno);
}

}  // namespace

TemporaryFolder::TemporaryFolder(std::string& error) {
  const char* parent = std::getenv("TMPDIR");
  std::string path = std::string(parent && *parent == '/' ? parent : "/tmp") + "/errand-demo-XXXXXX";
  if (!::mkdtemp(path.data())) {
    error = "cannot make folder \"" + path + "\": " + std::strerror(errno);
    return;
  }
  path_ = path;
}

TemporaryFolder::~TemporaryFolder() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string write_project(const std::string& folder) {
  for (const char* name : {"/src", "/tests"}) {
    if (::mkdir((folder + name).c_str(), 0755) != 0)
      return "cannot make folder \"" + folder + name + "\": " + std::strerror(errno);
  }
  const std::pair<std::string_view, std::string_view> files[] = {{"/src/words.h", words_h},
                                                                 {"/src/words.c", words_c},
                                                                 {"/src/server.c", server_c},
                                                                 {"/run-tests.sh", run_tests_sh},
                                                                 {"/tests/test_words.c", test_words_c},
                                                                 {"/dev.sh", dev_sh},
                                                                 {"/get.sh", get_sh}};
  for (const auto& [name, text] : files) {
    if (std::string error = write_file(folder + std::string(name), text); !error.empty()) return error;
  }
  return {};
}

std::string write_script(const std::string& file) { return write_file(file, script); }

}  // namespace errand::demo
