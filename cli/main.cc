#include "cli/command_line.h"
#include "cli/commands.h"

int main(int argc, char** argv) {
  strata::CommandLine line;
  strata::AddBench(line);
  strata::AddConfig(line);
  strata::AddLab(line);
  strata::AddRun(line);
  strata::AddTrain(line);
  strata::AddDemo(line);
  return line.Run(argc, argv);
}
