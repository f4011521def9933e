// SPDX-License-Identifier: Apache-2.0
#include "support/iso8601.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>

namespace errand {
namespace {

using std::chrono::milliseconds;
using std::chrono::sys_days;

// Digits only: from_chars alone would take a sign.
bool read_digits(std::string_view text, int& value) {
  if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos) return false;
  return std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc();
}

}  // namespace

std::string to_iso8601(std::int64_t ms) {
  using namespace std::chrono;
  constexpr auto kFirst = sys_days(year(0) / 1 / 1).time_since_epoch();
  constexpr auto kLast = sys_days(year(9999) / 12 / 31).time_since_epoch() + days(1) - milliseconds(1);
  const auto time = std::clamp(milliseconds(ms), milliseconds(kFirst), milliseconds(kLast));
  const auto day = floor<days>(sys_time<milliseconds>(time));
  const year_month_day date(day);
  const hh_mm_ss<milliseconds> clock(sys_time<milliseconds>(time) - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), clock.hours().count(),
                     clock.minutes().count(), clock.seconds().count(), clock.subseconds().count());
}

std::optional<std::int64_t> from_iso8601(std::string_view text) {
  using namespace std::chrono;
  if (text.size() < 20 || text.back() != 'Z' || text[4] != '-' || text[7] != '-' || text[10] != 'T' ||
      text[13] != ':' || text[16] != ':') {
    return std::nullopt;
  }
  int y = 0, mon = 0, d = 0, h = 0, min = 0, s = 0, fraction = 0;
  if (!read_digits(text.substr(0, 4), y) || !read_digits(text.substr(5, 2), mon) ||
      !read_digits(text.substr(8, 2), d) || !read_digits(text.substr(11, 2), h) ||
      !read_digits(text.substr(14, 2), min) || !read_digits(text.substr(17, 2), s)) {
    return std::nullopt;
  }
  if (text.size() > 20) {
    const std::string_view digits = text.substr(20, text.size() - 21);
    if (text[19] != '.' || digits.size() > 9 || !read_digits(digits, fraction)) return std::nullopt;
    fraction = 0;
    for (std::size_t i = 0; i < 3; ++i) fraction = fraction * 10 + (i < digits.size() ? digits[i] - '0' : 0);
  }
  const year_month_day date(year(y), month(static_cast<unsigned>(mon)), day(static_cast<unsigned>(d)));
  if (!date.ok() || h > 23 || min > 59 || s > 60) return std::nullopt;
  const auto time = sys_days(date).time_since_epoch() + hours(h) + minutes(min) + seconds(s) + milliseconds(fraction);
  return milliseconds(time).count();
}

}  // namespace errand
