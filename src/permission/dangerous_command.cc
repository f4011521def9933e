// SPDX-License-Identifier: Apache-2.0
#include "permission/dangerous_command.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>
#include <utility>

#include "permission/danger_paths.h"

namespace errand {
namespace {

using Names = std::set<std::string_view>;

// A command's words after its name: options and the rest.
struct Arguments {
  std::string letters;                    // of "-rf" and "-r -f"
  std::vector<std::string> long_options;  // "--force", "--mode=x"
  std::vector<const ShellWord*> operands;

  bool has(char letter) const { return letters.find(letter) != std::string::npos; }
  // GNU programs take any beginning of a long option.
  bool has_long(std::string_view option, std::size_t least = 5) const {
    return std::any_of(long_options.begin(), long_options.end(), [&](const std::string& each) {
      const std::string_view name = std::string_view(each).substr(0, each.find('='));
      return name.size() >= std::min(least, option.size()) && option.starts_with(name);
    });
  }
};

Arguments arguments_of(const ShellCommand& command) {
  Arguments arguments;
  bool options = true;
  for (std::size_t i = 1; i < command.words.size(); ++i) {
    const std::string& text = command.words[i].text;
    if (options && text == "--") {
      options = false;
    } else if (options && text.starts_with("--")) {
      arguments.long_options.push_back(text);
    } else if (options && text.size() > 1 && text[0] == '-') {
      arguments.letters += text.substr(1);
    } else {
      arguments.operands.push_back(&command.words[i]);
    }
  }
  return arguments;
}

class Examination {
 public:
  Examination(const PermissionQuery& query, const ShellScript& script, std::string home)
      : query_(query), script_(script), home_(std::move(home)) {}

  std::vector<Decision> run() {
    for (const ShellFinding& finding : script_.findings) take(finding);
    for (const ShellCommand& command : script_.commands) examine(command);
    return std::move(votes_);
  }

 private:
  void vote(Verdict verdict, const std::string& part, std::string reason) {
    votes_.push_back(Decision{verdict, "DangerousCommandRule", part, std::move(reason)});
  }

  void take(const ShellFinding& finding) {
    const bool certain =
        finding.kind == ShellFinding::Kind::runs_download || finding.kind == ShellFinding::Kind::fork_bomb;
    vote(certain ? Verdict::deny : Verdict::ask, finding.part, finding.reason);
  }

  PathContext context_of(const ShellCommand& command) const {
    return PathContext{command.remote ? std::string() : project(), home_, command.folders, command.remote};
  }
  std::string project() const { return query_.project.empty() ? query_.folder : query_.project; }

  // What is not certain is asked for: a word of which a part is missing may be meant otherwise.
  void vote_path(const ShellCommand& command, const ShellWord& word, PathRank rank, Verdict for_system,
                 const std::string& what) {
    if (rank == PathRank::none) return;
    Verdict verdict = Verdict::ask;
    if (rank >= PathRank::tree) verdict = Verdict::deny;
    if (rank == PathRank::system) verdict = for_system;
    if (word.unresolved) verdict = Verdict::ask;
    vote(verdict, command.text, what + " " + (word.source.empty() ? word.text : word.source));
  }

  void removal(const ShellCommand& command, const ShellWord& word, bool recursive,
               const std::string& what = "it removes") {
    const PathRank rank = rank_of(word, context_of(command));
    // A folder is not removed without -r; its entry in /dev is.
    if (rank == PathRank::tree && !recursive && !word.glob) {
      vote_path(command, word, PathRank::system, Verdict::ask, what);
    } else {
      vote_path(command, word, rank, recursive ? Verdict::deny : Verdict::ask, what);
    }
  }

  void overwriting(const ShellCommand& command, const ShellWord& word, const std::string& what = "it overwrites") {
    if (is_harmless_sink(word.text)) return;
    const PathRank rank = rank_of(word, context_of(command));
    // Writing into a folder of one's own is what commands do.
    if (rank == PathRank::notable && !is_key(word)) return;
    vote_path(command, word, rank == PathRank::tree ? PathRank::system : rank, Verdict::ask, what);
  }

  static bool is_key(const ShellWord& word) {
    return word.text.find("/.ssh/") != std::string::npos || word.text.find("/.gnupg/") != std::string::npos;
  }

  void examine(const ShellCommand& command) {
    for (const ShellRedirect& redirect : command.redirects) {
      if (redirect.kind == ShellRedirect::Kind::write) overwriting(command, redirect.target);
    }
    if (command.words.empty()) return;
    const std::string name = command_name(command);
    const Arguments arguments = arguments_of(command);
    files(command, name, arguments);
    disks(command, name, arguments);
    modes(command, name, arguments);
    machine(command, name, arguments);
    if (name == "git") git(command);
    if (name == "find") find(command);
    if (!command.code.empty()) code(command, command.code);
    if (name == "awk" || name == "gawk" || name == "mawk") {
      for (const ShellWord& word : command.words) code(command, word.text);
    }
  }

  void files(const ShellCommand& command, const std::string& name, const Arguments& arguments) {
    if (name == "rm" || name == "srm" || name == "rmdir" || name == "unlink" || name == "shred" || name == "wipe") {
      const bool recursive = arguments.has('r') || arguments.has('R') || arguments.has_long("--recursive", 3);
      for (const ShellWord* word : arguments.operands) removal(command, *word, recursive);
      if (arguments.has_long("--no-preserve-root", 10))
        vote(Verdict::deny, command.text, "it lifts the guard of the root folder");
      for (const std::string& root : command.found_in) {
        ShellWord word;
        word.text = word.source = root;
        const PathRank rank = rank_of(word, context_of(command));
        if (rank >= PathRank::system)
          vote(rank >= PathRank::tree && recursive ? Verdict::deny : Verdict::ask, command.text,
               "it removes what is found in " + root);
      }
    } else if (name == "mv" || name == "rename") {
      for (std::size_t i = 0; i < arguments.operands.size(); ++i) {
        const bool target = i + 1 == arguments.operands.size() && i > 0;
        if (target) {
          overwriting(command, *arguments.operands[i]);
          if (is_harmless_sink(arguments.operands[i]->text))
            vote(Verdict::ask, command.text, "what is moved there is lost");
        } else {
          removal(command, *arguments.operands[i], true, "it moves away");
        }
      }
    } else if (name == "cp" || name == "install" || name == "ln" || name == "rsync" || name == "scp") {
      const bool deletes = name == "rsync" && arguments.has_long("--delete", 5);
      if (arguments.operands.size() > 1) {
        if (deletes)
          removal(command, *arguments.operands.back(), true, "it deletes in");
        else
          overwriting(command, *arguments.operands.back());
      }
      for (const ShellWord& word : command.words) {
        if (word.text.starts_with("--target-directory=")) {
          ShellWord folder = word;
          folder.text = word.text.substr(19);
          overwriting(command, folder);
        }
      }
    } else if (name == "tee" || name == "truncate" || name == "sponge" || name == "fallocate") {
      for (const ShellWord* word : arguments.operands) overwriting(command, *word);
    } else if ((name == "sed" || name == "perl") && (arguments.has('i') || arguments.has_long("--in-place", 4))) {
      for (const ShellWord* word : arguments.operands) {
        if (word->text.starts_with("/")) overwriting(command, *word);
      }
    } else if (name == "tar" || name == "bsdtar" || name == "unzip") {
      for (std::size_t i = 1; i + 1 < command.words.size(); ++i) {
        if (command.words[i].text == (name == "unzip" ? "-d" : "-C"))
          overwriting(command, command.words[i + 1], "it unpacks into");
      }
    }
  }

  void disks(const ShellCommand& command, const std::string& name, const Arguments& arguments) {
    static const Names kFormatters = {
        "mke2fs",   "mkswap",    "wipefs", "blkdiscard", "sgdisk", "sfdisk",     "cfdisk",   "fdisk",    "parted",
        "gdisk",    "badblocks", "hdparm", "mkdosfs",    "newfs",  "cryptsetup", "pvcreate", "pvremove", "vgremove",
        "lvremove", "mdadm",     "nvme",   "zpool",      "zfs",    "flashrom",   "diskutil"};
    if (name == "dd") {
      for (const ShellWord& word : command.words) {
        if (!word.text.starts_with("of=")) continue;
        ShellWord target = word;
        target.text = word.text.substr(3);
        target.source = word.source.substr(std::min<std::size_t>(3, word.source.size()));
        if (target.text.empty() && word.unresolved)
          vote(Verdict::ask, command.text, "what it overwrites is known only when it runs");
        else
          overwriting(command, target);
      }
      return;
    }
    const bool makes = name == "mkfs" || name.starts_with("mkfs.");
    if (makes || kFormatters.contains(name)) {
      bool on_device = false, unknown = false;
      for (const ShellWord* word : arguments.operands) {
        on_device = on_device || word->text.starts_with("/dev/");
        unknown = unknown || word->unresolved;
      }
      const bool looks_only = arguments.has('l') || arguments.has_long("--list", 4) ||
                              arguments.has_long("--help", 4) || arguments.has_long("--version", 5) ||
                              arguments.has('V') ||
                              (!arguments.operands.empty() && arguments.operands.back()->text == "print") ||
                              (!arguments.operands.empty() &&
                               (arguments.operands[0]->text == "status" || arguments.operands[0]->text == "list"));
      const bool destroys = !arguments.operands.empty() &&
                            (arguments.operands[0]->text == "destroy" || arguments.operands[0]->text == "labelclear");
      if ((on_device && !looks_only) || (makes && arguments.operands.empty() && !looks_only) || name == "lvremove" ||
          name == "vgremove" || destroys) {
        vote(Verdict::deny, command.text, "it changes a disk");
      } else if (unknown && !looks_only) {
        vote(Verdict::ask, command.text, "which disk or file it changes is known only when it runs");
      }
    }
    if (name == "grub-install" || name == "efibootmgr" || name == "bootctl" || name == "update-grub") {
      if (!arguments.operands.empty() || !arguments.letters.empty())
        vote(Verdict::ask, command.text, "it changes how the machine boots");
    }
  }

  void modes(const ShellCommand& command, const std::string& name, const Arguments& arguments) {
    static const Names kNames = {"chmod", "chown", "chgrp", "chattr", "setfacl", "chcon"};
    if (!kNames.contains(name)) return;
    const bool recursive = arguments.has('R') || arguments.has_long("--recursive", 5);
    for (std::size_t i = 0; i < arguments.operands.size(); ++i) {
      const ShellWord& word = *arguments.operands[i];
      const PathRank rank = rank_of(word, context_of(command));
      if (rank == PathRank::none || (rank == PathRank::notable && !(is_key(word) && recursive))) continue;
      // "chmod 600 ~/.ssh/x" is what one does with keys; the home itself by itself, too.
      if (rank == PathRank::tree && !recursive && word.text.starts_with(home_)) continue;
      if (i == 0 && word.text.find('/') == std::string::npos && !arguments.has_long("--reference", 5))
        continue;  // the mode
      const bool tree = recursive && rank >= PathRank::system;
      vote(tree && !word.unresolved ? Verdict::deny : Verdict::ask, command.text,
           "it changes who owns or may use " + word.source);
    }
  }

  void machine(const ShellCommand& command, const std::string& name, const Arguments& arguments) {
    static const Names kEnders = {"shutdown", "reboot", "halt", "poweroff"};
    const auto operand = [&arguments](std::size_t i) {
      return i < arguments.operands.size() ? arguments.operands[i]->text : std::string();
    };
    if (kEnders.contains(name)) {
      const bool harmless = arguments.has_long("--help", 4) || arguments.has_long("--version", 5) ||
                            arguments.has_long("--show", 5) || (name == "shutdown" && arguments.has('c'));
      if (!harmless) vote(Verdict::deny, command.text, "it shuts the machine down");
    } else if ((name == "init" || name == "telinit") && operand(0).size() == 1 &&
               std::string("0156sS").find(operand(0)) != std::string::npos) {
      vote(Verdict::deny, command.text, "it changes the machine's run level");
    } else if (name == "systemctl" || name == "loginctl") {
      static const Names kVerbs = {"poweroff",  "reboot", "halt", "kexec",       "suspend",     "hibernate",
                                   "emergency", "rescue", "exit", "soft-reboot", "hybrid-sleep"};
      if (kVerbs.contains(operand(0))) vote(Verdict::deny, command.text, "it shuts the machine down");
      if (operand(0) == "isolate") vote(Verdict::ask, command.text, "it changes the machine's run level");
      if (operand(0) == "set-default") vote(Verdict::ask, command.text, "it changes how the machine boots");
    } else if (name == "kill") {
      kill(command);
    } else if (name == "killall5") {
      vote(Verdict::deny, command.text, "it kills every process");
    } else if (name == "pkill" || name == "killall" || name == "skill" || name == "slay") {
      killing_by_name(command, name, arguments);
    } else if (name == "crontab" && arguments.has('r')) {
      vote(Verdict::ask, command.text, "it removes the user's whole crontab");
    } else if (name == "userdel" || name == "deluser" || name == "groupdel") {
      vote(Verdict::ask, command.text, "it removes a user or group");
    }
  }

  // kill -1 1234 hangs up 1234; kill -9 -1 kills everything.
  void kill(const ShellCommand& command) {
    bool signal_seen = false, any_target = false;
    for (std::size_t i = 1; i < command.words.size(); ++i) {
      const std::string& text = command.words[i].text;
      if (text == "-l" || text == "-L" || text.starts_with("--l")) return;
      if (text == "--") {
        signal_seen = true;
      } else if (text == "-s" || text == "-n" || text == "--signal") {
        ++i;
        signal_seen = true;
      } else if (text.starts_with("-") && !signal_seen) {
        signal_seen = true;
        if (text == "-1" && i + 1 == command.words.size())
          vote(Verdict::deny, command.text, "it may reach every process");
      } else {
        any_target = any_target || !text.empty();
        if (text == "-1") vote(Verdict::deny, command.text, "it kills every process");
        if (text == "1") vote(Verdict::ask, command.text, "it ends the machine's first process");
      }
    }
  }

  void killing_by_name(const ShellCommand& command, const std::string& name, const Arguments& arguments) {
    static const Names kEverything = {".", ".*", "", "*", ".+", "^", "[a-z]", "[a-z]*"};
    bool wide = arguments.operands.empty() && (arguments.has('u') || arguments.has('U') ||
                                               arguments.has_long("--user", 5) || arguments.has_long("--euid", 5));
    for (std::size_t i = 1; i + 1 < command.words.size(); ++i) {
      // -u takes a value: `pkill -u root` has no pattern at all.
      if (command.words[i].text == "-u" || command.words[i].text == "-U" || command.words[i].text == "--user") {
        wide = wide || arguments.operands.size() <= 1;
      }
    }
    for (const ShellWord* word : arguments.operands) {
      const bool all = kEverything.contains(word->text) && !word->unresolved;
      wide = wide || (all && (name != "killall" || arguments.has('r')));
    }
    if (wide) vote(Verdict::deny, command.text, "it kills every process of a user, or all of them");
  }

  void git(const ShellCommand& command) {
    std::vector<const ShellWord*> words;
    for (std::size_t i = 1; i < command.words.size(); ++i) {
      const std::string& text = command.words[i].text;
      if (words.empty() && text.starts_with("-")) {
        if (text == "-C" || text == "-c" || text == "--git-dir" || text == "--work-tree" || text == "--namespace") ++i;
        continue;
      }
      words.push_back(&command.words[i]);
    }
    if (words.empty()) return;
    const std::string verb = words[0]->text;
    auto has = [&words](const std::string& option) {
      return std::any_of(words.begin() + 1, words.end(), [&](const ShellWord* word) {
        return word->text == option || word->text.starts_with(option + "=");
      });
    };
    if (verb == "push") {
      bool forces = has("--force") || has("--force-with-lease") || has("--mirror") || has("--prune") || has("--delete");
      for (std::size_t i = 1; i < words.size(); ++i) {
        const std::string& text = words[i]->text;
        const bool letters = text.size() > 1 && text[0] == '-' && text[1] != '-';
        if (letters && (text.find('f') != std::string::npos || text.find('d') != std::string::npos))
          forces = text != "-o" || forces;
        if (!text.empty() && (text[0] == '+' || (text[0] == ':' && text.size() > 1))) forces = true;
      }
      if (forces) vote(Verdict::ask, command.text, "it overwrites or deletes what others have on the server");
    } else if (verb == "filter-branch" || verb == "filter-repo") {
      vote(Verdict::ask, command.text, "it rewrites the history");
    } else if (verb == "reflog" && has("expire")) {
      vote(Verdict::ask, command.text, "it makes lost commits unrecoverable");
    } else if (verb == "update-ref" && has("-d")) {
      vote(Verdict::ask, command.text, "it deletes a reference");
    } else if (verb == "branch" && (has("-D") || (has("-d") && has("--force")) || has("-f"))) {
      for (const ShellWord* word : words) {
        static const Names kShared = {"main", "master", "trunk", "develop", "release", "production", "stable"};
        if (kShared.contains(word->text)) vote(Verdict::ask, command.text, "it deletes or moves a shared branch");
      }
    }
  }

  void find(const ShellCommand& command) {
    bool deletes = false, narrowed = false, before_tests = true;
    std::vector<const ShellWord*> roots;
    for (std::size_t i = 1; i < command.words.size(); ++i) {
      const ShellWord& word = command.words[i];
      const std::string& text = word.text;
      if (text.starts_with("-") && text.size() > 1 && text != "-L" && text != "-H" && text != "-P")
        before_tests = false;
      if (before_tests && !text.starts_with("-")) roots.push_back(&word);
      deletes = deletes || text == "-delete";
      narrowed = narrowed || text == "-name" || text == "-iname" || text == "-path" || text == "-regex" ||
                 text == "-mtime" || text == "-newer" || text == "-empty" || text == "-mmin" || text == "-size" ||
                 text == "-ipath" || text == "-wholename";
    }
    if (!deletes) return;
    ShellWord here;
    here.text = here.source = ".";
    if (roots.empty()) roots.push_back(&here);
    for (const ShellWord* root : roots) {
      const PathRank rank = rank_of(*root, context_of(command));
      if (rank == PathRank::none || (rank == PathRank::notable && narrowed)) continue;
      vote(rank >= PathRank::tree && !narrowed && !root->unresolved ? Verdict::deny : Verdict::ask, command.text,
           "it removes what is found in " + root->source);
    }
  }

  // An interpreter's program is not followed. What stands in it as a string is looked at: as a shell command when the
  // program can run one, as a path when it can remove one.
  void code(const ShellCommand& command, const std::string& program) {
    const auto contains = [&program](std::string_view word) { return program.find(word) != std::string::npos; };
    if (contains("fork while fork") || contains("while fork") || (contains("while") && contains("os.fork()"))) {
      vote(Verdict::deny, command.text, "it starts itself again and again");
    }
    const bool runs = contains("system") || contains("exec") || contains("popen") || contains("subprocess") ||
                      contains("spawn") || contains("`") || contains("qx");
    const bool removes = contains("rmtree") || contains("rm_r") || contains("rmSync") || contains("remove_tree") ||
                         contains("rmdir") || contains("unlink") || contains("os.remove") || contains("remove(");
    if (!runs && !removes) return;
    for (const std::string& text : strings_in(program)) {
      if (removes && text.starts_with("/")) {
        ShellWord word;
        word.text = word.source = text;
        const PathRank rank = rank_of(word, context_of(command));
        if (rank >= PathRank::system) vote(Verdict::ask, command.text, "it may remove " + text);
      }
      if (runs && depth_ < 3) {
        ShellSurroundings surroundings;
        surroundings.folder = query_.folder;
        surroundings.home = home_;
        const ShellScript inner = parse_shell(text, surroundings);
        Examination examination(query_, inner, home_);
        examination.depth_ = depth_ + 1;
        for (const Decision& each : examination.run()) {
          if (each.verdict == Verdict::deny)
            vote(Verdict::ask, command.text, "it may run " + each.part + ": " + each.reason);
        }
      }
    }
  }

  // Quoted strings, and neighbours in a list joined: ["rm", "-rf", "/"].
  static std::vector<std::string> strings_in(const std::string& program) {
    std::vector<std::string> strings;
    std::string together;
    for (std::size_t i = 0; i < program.size() && strings.size() < 64; ++i) {
      const char quote = program[i];
      if (quote != '"' && quote != '\'' && quote != '`') continue;
      std::string text;
      std::size_t at = i + 1;
      for (; at < program.size() && program[at] != quote; ++at) {
        if (program[at] == '\\' && at + 1 < program.size()) ++at;
        text += program[at];
      }
      if (at >= program.size()) break;
      together += (together.empty() ? "" : " ") + text;
      strings.push_back(std::move(text));
      i = at;
    }
    if (strings.size() > 1) strings.push_back(together);
    return strings;
  }

  const PermissionQuery& query_;
  const ShellScript& script_;
  const std::string home_;
  int depth_ = 0;
  std::vector<Decision> votes_;
};

}  // namespace

std::vector<Decision> DangerousCommandRule::votes(const PermissionQuery& query, const ShellScript& script,
                                                  const std::string& home) const {
  return Examination(query, script, home).run();
}

std::vector<Decision> DangerousCommandRule::votes(const PermissionQuery& query, PermissionMode) const {
  const ShellSurroundings surroundings = own_surroundings(query.folder);
  if (query.kind == ActionKind::command)
    return votes(query, parse_shell(query.subject, surroundings), surroundings.home);
  if (query.kind != ActionKind::edit) return {};
  ShellWord word;
  word.text = word.source = query.subject;
  const PathContext context{
      query.project.empty() ? query.folder : query.project, surroundings.home, {query.folder}, false};
  const PathRank rank = rank_of(word, context);
  if (rank < PathRank::system) return {};
  return {Decision{rank == PathRank::disk ? Verdict::deny : Verdict::ask, name(), query.subject,
                   "it overwrites a system file"}};
}

}  // namespace errand
