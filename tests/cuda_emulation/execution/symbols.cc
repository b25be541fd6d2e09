#include "tests/cuda_emulation/execution/symbols.h"

#include <cxxabi.h>
#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <vector>

namespace tessera::cuda_emulation {
namespace {

std::vector<char> ReadProgram() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Where the program was loaded, to be added to the addresses in its file.
uintptr_t LoadAddress() {
  uintptr_t address = 0;
  // The first object reported is the program itself.
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* result) {
        *static_cast<uintptr_t*>(result) = info->dlpi_addr;
        return 1;
      },
      &address);
  return address;
}

// Mangled names of the functions, by address.
std::map<uintptr_t, std::string> ReadFunctions() {
  std::map<uintptr_t, std::string> names;
  const std::vector<char> program = ReadProgram();
  ElfW(Ehdr) header;
  if (program.size() < sizeof(header)) return names;
  std::memcpy(&header, program.data(), sizeof(header));
  const auto* sections = reinterpret_cast<const ElfW(Shdr)*>(program.data() + header.e_shoff);
  for (int i = 0; i < header.e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const auto* symbols =
        reinterpret_cast<const ElfW(Sym)*>(program.data() + sections[i].sh_offset);
    const char* strings = program.data() + sections[sections[i].sh_link].sh_offset;
    for (size_t s = 0; s < sections[i].sh_size / sizeof(ElfW(Sym)); ++s) {
      if ((symbols[s].st_info & 0xf) != STT_FUNC || symbols[s].st_value == 0) continue;
      names.emplace(LoadAddress() + symbols[s].st_value, strings + symbols[s].st_name);
    }
  }
  return names;
}

}  // namespace

std::string FunctionName(const void* function) {
  static const std::map<uintptr_t, std::string> names = ReadFunctions();
  const auto found = names.find(reinterpret_cast<uintptr_t>(function));
  if (found == names.end()) {
    std::ostringstream address;
    address << "at " << function;
    return address.str();
  }
  int status = 0;
  char* demangled = abi::__cxa_demangle(found->second.c_str(), nullptr, nullptr, &status);
  std::string name = status == 0 ? demangled : found->second;
  std::free(demangled);
  const size_t anonymous = name.find("(anonymous namespace)::");
  if (anonymous != std::string::npos) name.erase(anonymous, std::strlen("(anonymous namespace)::"));
  return name.substr(0, name.find('('));
}

}  // namespace tessera::cuda_emulation
