// Linked with one whole layer; see CMakeLists.txt.
int main() { return 0; }
