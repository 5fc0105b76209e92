/* std::regex recurses for each character of a long text.

Truth: {"says": ["SIGSEGV", "stack is used up", "begun by is_comment"], "flags": ["-O1"]}
*/
#include <regex>
#include <string>
#include <iostream>
bool is_comment(const std::string &text) { static const std::regex re("/\\*(.|\n)*\\*/"); return std::regex_match(text, re); }
int main() { std::string s = "/*" + std::string(400000, 'x') + "*/"; std::cout << is_comment(s) << "\n"; }
