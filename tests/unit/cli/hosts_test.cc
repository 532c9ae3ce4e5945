#include "cli/run/hosts.h"

#include <array>
#include <cstdio>
#include <cstdlib>

#include "tests/support/status_matchers.h"

namespace strata {
namespace {

using testing::HasSubstr;

TEST(ParseHosts, TakesNamesAndCounts) {
  const absl::StatusOr<std::vector<Host>> hosts = ParseHosts("a,b-1.net:4,10.0.0.7:1");
  ASSERT_OK(hosts);
  ASSERT_EQ(hosts->size(), 3u);
  EXPECT_EQ((*hosts)[0].name, "a");
  EXPECT_EQ((*hosts)[0].ranks, 1);
  EXPECT_EQ((*hosts)[1].name, "b-1.net");
  EXPECT_EQ((*hosts)[1].ranks, 4);
  EXPECT_EQ((*hosts)[2].name, "10.0.0.7");
}

TEST(ParseHosts, NamesTheWordThatIsWrong) {
  for (const char* bad : {"", "b:", "b:0", "b:-1", "b:x", "b:1:2", "b:1001", "-oProxyCommand=x"}) {
    EXPECT_THAT(ParseHosts(std::string("a,") + bad),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(bad)));
  }
  EXPECT_THAT(ParseHosts("a,b,a:2"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"a\" appears twice")));
}

// What a shell prints for a command.
std::string ShellOutput(const std::string& command) {
  FILE* shell = popen(command.c_str(), "r");
  std::array<char, 4096> text;
  const size_t bytes = std::fread(text.data(), 1, text.size(), shell);
  EXPECT_EQ(pclose(shell), 0) << command;
  return std::string(text.data(), bytes);
}

constexpr const char* kOddWords[] = {"",      "plain", "two words", "it's",   "'",
                                     "$HOME", "`id`",  "a\"b\\c",   "x\ny\n", "*;&|<>#~!"};

TEST(ShellQuote, GivesTheShellTheWordBack) {
  for (const std::string word : kOddWords) {
    EXPECT_EQ(ShellOutput("printf '%s|' " + ShellQuote(word)), word + "|");
  }
}

TEST(RemoteScript, HandsOddWordsTokenAndEnvironmentOn) {
  std::vector<std::string> program = {
      "sh", "-c", "printf '%s|' \"$STRATA_TOKEN\" \"$ODD\" \"$PWD\" \"$@\"", "sh"};
  std::string expected = "secret|a 'b' $c|/usr|";
  for (const std::string word : kOddWords) {
    program.push_back(word);
    expected += word + "|";
  }
  const std::string script = RemoteScript("/usr", {"ODD=a 'b' $c"}, program);
  EXPECT_EQ(script.find("secret"), std::string::npos);
  // The input stays open until the program has ended, as a launcher's does.
  EXPECT_EQ(ShellOutput("{ echo secret; sleep 1; } | " + script), expected);
}

}  // namespace
}  // namespace strata
