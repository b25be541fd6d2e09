#include "tests/cuda_emulation/execution/symbols.h"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>

namespace tessera::cuda_emulation {
namespace {

using Symbol = ElfW(Sym);

// The file of the running program in memory.
class ProgramFile {
 public:
  ProgramFile() {
    const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    struct stat status;
    if (fstat(file, &status) == 0) {
      void* memory = mmap(nullptr, status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
      if (memory != MAP_FAILED) {
        data_ = static_cast<const char*>(memory);
        num_bytes_ = static_cast<size_t>(status.st_size);
      }
    }
    close(file);
  }
  ~ProgramFile() {
    if (data_ != nullptr) munmap(const_cast<char*>(data_), num_bytes_);
  }
  ProgramFile(const ProgramFile&) = delete;
  ProgramFile& operator=(const ProgramFile&) = delete;

  // Calls visit(symbol, mangled name) for each symbol.
  template <class Visit>
  void ForEachSymbol(const Visit& visit) const {
    if (num_bytes_ < sizeof(ElfW(Ehdr))) return;
    const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(data_);
    const auto* sections = reinterpret_cast<const ElfW(Shdr)*>(data_ + header->e_shoff);
    for (int i = 0; i < header->e_shnum; ++i) {
      if (sections[i].sh_type != SHT_SYMTAB) continue;
      const auto* symbols = reinterpret_cast<const Symbol*>(data_ + sections[i].sh_offset);
      const char* names = data_ + sections[sections[i].sh_link].sh_offset;
      for (size_t s = 0; s < sections[i].sh_size / sizeof(Symbol); ++s) {
        visit(symbols[s], names + symbols[s].st_name);
      }
    }
  }

 private:
  const char* data_ = nullptr;
  size_t num_bytes_ = 0;
};

int TypeOf(const Symbol& symbol) { return symbol.st_info & 0xf; }

// How the program lies in memory. The loader reports it before all libraries.
dl_phdr_info LoadedProgram() {
  dl_phdr_info program{};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* result) {
        *static_cast<dl_phdr_info*>(result) = *info;
        return 1;
      },
      &program);
  return program;
}

std::map<uintptr_t, std::string> ReadFunctionNames() {
  std::map<uintptr_t, std::string> names;
  const uintptr_t load_address = LoadedProgram().dlpi_addr;
  ProgramFile().ForEachSymbol([&](const Symbol& symbol, const char* name) {
    if (TypeOf(symbol) == STT_FUNC) names.emplace(load_address + symbol.st_value, name);
  });
  return names;
}

}  // namespace

std::string FunctionName(const void* function) {
  static const std::map<uintptr_t, std::string> names = ReadFunctionNames();
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
  const std::string anonymous = "(anonymous namespace)::";
  for (size_t at; (at = name.find(anonymous)) != std::string::npos;)
    name.erase(at, anonymous.size());
  return name.substr(0, name.find('('));
}

std::vector<ThreadLocalVariable> FindLocalThreadLocals() {
  constexpr char kLocalEntity[] = "_ZZ";  // how the names of such variables are mangled
  std::vector<ThreadLocalVariable> variables;
  ProgramFile().ForEachSymbol([&](const Symbol& symbol, const char* name) {
    if (TypeOf(symbol) == STT_TLS && std::strncmp(name, kLocalEntity, 3) == 0) {
      variables.push_back({.offset = symbol.st_value, .num_bytes = symbol.st_size});
    }
  });
  return variables;
}

char* ThreadLocalBlock() { return static_cast<char*>(LoadedProgram().dlpi_tls_data); }

}  // namespace tessera::cuda_emulation
