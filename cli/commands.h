#pragma once

namespace strata {

class CommandLine;

// Each adds one subcommand with its options; one file per subcommand. To add one: write its file,
// declare its function here and call it in main.cc.
void AddBench(CommandLine& line);
void AddConfig(CommandLine& line);
void AddLab(CommandLine& line);
void AddTrain(CommandLine& line);
void AddDemo(CommandLine& line);
void AddRun(CommandLine& line);

}  // namespace strata
