// SPDX-License-Identifier: Apache-2.0
// Text and the cells that it takes: grapheme clusters, their widths, and what may reach a terminal at all.
//
// Whatever a model or a task printed passes TextFilter before it is written: no control character and no escape
// sequence of theirs reaches the terminal, so that nothing can move the cursor, set a title or forge a prompt.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace errand::terminal {

// The length in bytes of the first cluster of a valid text; 0 only for an empty one.
std::size_t cluster_length(std::string_view text);
// The length in bytes of the last one.
std::size_t last_cluster_length(std::string_view text);
// Cells that one cluster takes, 0..2. Control characters count as drawn by shown_cluster().
int cluster_width(std::string_view cluster);
// How a cluster of the input line is drawn: a tab as spaces, other control characters as ^X, the rest as it is.
std::string shown_cluster(std::string_view cluster);
int text_width(std::string_view text);
// True for clusters on whose width terminals differ (emoji sequences, flags, combining marks).
bool has_doubtful_width(std::string_view cluster);

// Streaming: a sequence may be cut between two calls. Keeps \n and \t; drops \r, all other control characters (C1 and
// DEL too) and whole escape sequences. The input is cleaned to valid UTF-8 (a character cut between two calls is kept
// back until it is whole).
class TextFilter {
 public:
  std::string feed(std::string_view bytes);

 private:
  enum class State { ground, escape, csi, string, string_escape };
  State state_ = State::ground;
  std::string partial_;
};
// A whole text at once.
std::string plain_text(std::string_view bytes);

// For questions, where the exact text matters: control characters and those that reorder or hide text are written out
// as \x1b or \u202e, so that what is shown is what would run. Newlines stay.
std::string visible_text(std::string_view text);

}  // namespace errand::terminal
