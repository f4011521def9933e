// SPDX-License-Identifier: Apache-2.0
// Bytes of a terminal in raw mode -> keys. A decoder is passive: its owner feeds it what was read and, while an escape
// is held back, calls flush() when 50 ms have passed without a further byte (a lone ESC and the begin of a sequence are
// the same byte).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace errand::terminal {

enum class KeyCode {
  text,   // one or more typed characters, in Key::text
  paste,  // a bracketed paste, whole, with \n between its lines, in Key::text
  enter,
  newline,  // Alt+Enter: a line break inside the input
  backspace,
  remove,  // Delete
  left,
  right,
  word_left,
  word_right,
  up,
  down,
  home,
  end,
  kill_to_end,    // Ctrl+K
  kill_to_start,  // Ctrl+U
  kill_word,      // Ctrl+W
  interrupt,      // Ctrl+C
  end_of_input,   // Ctrl+D
  clear_screen,   // Ctrl+L
  suspend,        // Ctrl+Z
  tab,
  escape,
  unknown,  // a complete sequence that means nothing here
};

struct Key {
  KeyCode code = KeyCode::unknown;
  std::string text;
  bool operator==(const Key&) const = default;
};

class KeyDecoder {
 public:
  std::vector<Key> feed(std::string_view bytes);
  // Bytes are held that may be an escape key alone, or the begin of a sequence.
  bool waiting() const { return !pasting_ && !held_.empty() && held_[0] == '\x1b'; }
  // The time is over: what is held is taken as keys.
  std::vector<Key> flush();

 private:
  // Consumes one key of held_; false when more bytes are needed.
  bool take(std::vector<Key>& keys, bool complete);
  bool take_escape(std::vector<Key>& keys, bool complete);
  bool take_paste(std::vector<Key>& keys);

  std::string held_;
  bool pasting_ = false;
};

}  // namespace errand::terminal
