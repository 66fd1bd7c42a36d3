#include "placement/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_map>

namespace heddle::placement {
namespace {

constexpr int64_t kMaxAmount = 1'000'000'000'000;  // of any column; sums of a trace stay far inside int64
constexpr int64_t kBytesPerMib = int64_t{1} << 20;

struct Row {
  size_t line = 0;
  std::vector<std::string> fields;
};

tl::unexpected<Error> fail_at(std::string_view file, size_t line, std::string message) {
  return fail(Code::kInvalidArgument, std::move(message), fmt::format("{}:{}", file, line));
}

// The records of a CSV text, without empty lines.
class Reader {
 public:
  explicit Reader(const NamedText& source) : file_(source.name), rest_(source.text) {
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (rest_.starts_with(kByteOrderMark)) rest_.remove_prefix(kByteOrderMark.size());
  }

  // None at the end. Errors: a quote that is not closed.
  Result<std::optional<Row>> next() {
    while (!rest_.empty()) {
      Row row{line_, {}};
      HEDDLE_CHECK_OK(read(row));
      if (row.fields.size() > 1 || !row.fields.front().empty()) return std::optional(std::move(row));
    }
    return std::optional<Row>();
  }

 private:
  Result<void> read(Row& row) {
    std::string field;
    bool quoted = false;
    while (!rest_.empty()) {
      const char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == '\n') ++line_;
      if (quoted) {
        if (c != '"') {
          field += c;
        } else if (rest_.starts_with('"')) {
          field += c;
          rest_.remove_prefix(1);
        } else {
          quoted = false;
        }
        continue;
      }
      if (c == '\n') break;
      if (c == '"' && field.empty()) {
        quoted = true;
      } else if (c == ',') {
        row.fields.push_back(std::move(field));
        field.clear();
      } else if (c != '\r' || !rest_.starts_with('\n')) {
        field += c;
      }
    }
    if (quoted) return fail_at(file_, row.line, "a quoted field is not closed");
    row.fields.push_back(std::move(field));
    return {};
  }

  std::string_view file_;
  std::string_view rest_;
  size_t line_ = 1;
};

// A CSV text with a header.
class Table {
 public:
  static Result<Table> parse(const NamedText& source) {
    Reader reader(source);
    Table table;
    table.file_ = source.name;
    HEDDLE_TRY(auto header, reader.next());
    if (!header) return fail(Code::kInvalidArgument, "the file is empty", std::string(source.name));
    for (size_t i = 0; i < header->fields.size(); ++i) {
      if (!table.columns_.emplace(header->fields[i], i).second) {
        return fail_at(source.name, header->line, fmt::format("column {} is there twice", header->fields[i]));
      }
    }
    table.header_line_ = header->line;
    for (;;) {
      HEDDLE_TRY(auto row, reader.next());
      if (!row) break;
      if (row->fields.size() != table.columns_.size()) {
        return fail_at(source.name, row->line,
                       fmt::format("the line has {} fields, the header {}", row->fields.size(), table.columns_.size()));
      }
      table.rows_.push_back(*std::move(row));
    }
    if (table.rows_.empty()) return fail(Code::kInvalidArgument, "there is nothing below the header", table.file_);
    return table;
  }

  [[nodiscard]] const std::vector<Row>& rows() const { return rows_; }
  [[nodiscard]] bool has(const std::string& column) const { return columns_.contains(column); }
  [[nodiscard]] Result<void> need(std::initializer_list<const char*> columns) const {
    for (const char* column : columns) {
      if (!has(column)) return fail_at(file_, header_line_, fmt::format("the column {} is missing", column));
    }
    return {};
  }
  [[nodiscard]] const std::string& text(const Row& row, const std::string& column) const {
    return row.fields[columns_.at(column)];
  }
  [[nodiscard]] Result<int64_t> number(const Row& row, const std::string& column, int64_t most) const {
    const std::string& field = text(row, column);
    int64_t value = 0;
    const char* end = field.data() + field.size();
    const auto parsed = std::from_chars(field.data(), end, value);
    if (field.empty()) return wrong(row, column, "is empty; write a number");
    if (parsed.ec == std::errc::result_out_of_range) return wrong(row, column, fmt::format("'{}' is too large", field));
    if (parsed.ec != std::errc() || parsed.ptr != end) {
      return wrong(row, column, fmt::format("'{}' is not a whole number", field));
    }
    if (value < 0) return wrong(row, column, fmt::format("{} is negative", value));
    if (value > most) return wrong(row, column, fmt::format("{} is more than {}", value, most));
    return value;
  }
  [[nodiscard]] tl::unexpected<Error> wrong(const Row& row, const std::string& column, std::string message) const {
    return fail(Code::kInvalidArgument, std::move(message), fmt::format("{}:{}: {}", file_, row.line, column));
  }

 private:
  std::string file_;
  size_t header_line_ = 1;
  std::unordered_map<std::string, size_t> columns_;
  std::vector<Row> rows_;
};

// Models as kinds, in the order in which they are first seen.
class Kinds {
 public:
  explicit Kinds(std::vector<std::string>& models) : models_(models) {}
  Kind of(const std::string& model) {
    const auto [found, is_new] = kinds_.emplace(model, static_cast<Kind>(models_.size()));
    if (is_new) models_.push_back(model);
    return found->second;
  }
  [[nodiscard]] size_t size() const { return models_.size(); }

 private:
  std::vector<std::string>& models_;
  std::unordered_map<std::string, Kind> kinds_;
};

constexpr size_t kMaxModels = 10'000;

Result<std::vector<Node>> read_nodes(const Table& table, Kinds& kinds) {
  HEDDLE_CHECK_OK(table.need({"sn", "cpu_milli", "memory_mib", "gpu", "model"}));
  std::vector<Node> nodes;
  std::unordered_map<std::string, size_t> lines;
  for (const Row& row : table.rows()) {
    const auto [other, is_new] = lines.emplace(table.text(row, "sn"), row.line);
    if (!is_new) {
      return table.wrong(row, "sn", fmt::format("'{}' is on line {} already", other->first, other->second));
    }
    Node node;
    HEDDLE_TRY(node.cpu_milli, table.number(row, "cpu_milli", kMaxAmount));
    HEDDLE_TRY(const int64_t memory_mib, table.number(row, "memory_mib", kMaxAmount));
    HEDDLE_TRY(const int64_t cards, table.number(row, "gpu", kMaxCards));
    node.memory_bytes = memory_mib * kBytesPerMib;
    node.free_milli.assign(static_cast<size_t>(cards), kWholeCard);
    node.kind = kinds.of(table.text(row, "model"));
    if (kinds.size() > kMaxModels) return table.wrong(row, "model", "there are too many models");
    nodes.push_back(std::move(node));
  }
  return nodes;
}

std::vector<Kind> read_models(const std::string& spec, Kinds& kinds) {
  std::vector<Kind> allowed;
  size_t begin = 0;
  while (begin < spec.size()) {
    const size_t end = std::min(spec.find('|', begin), spec.size());
    if (end > begin) allowed.push_back(kinds.of(spec.substr(begin, end - begin)));
    begin = end + 1;
  }
  std::sort(allowed.begin(), allowed.end());
  allowed.erase(std::unique(allowed.begin(), allowed.end()), allowed.end());
  return allowed;
}

Result<Request> read_request(const Table& table, const Row& row, Kinds& kinds) {
  Request request;
  HEDDLE_TRY(request.cpu_milli, table.number(row, "cpu_milli", kMaxAmount));
  HEDDLE_TRY(const int64_t memory_mib, table.number(row, "memory_mib", kMaxAmount));
  HEDDLE_TRY(const int64_t cards, table.number(row, "num_gpu", 1'000'000));
  HEDDLE_TRY(const int64_t milli, table.number(row, "gpu_milli", kWholeCard));
  request.memory_bytes = memory_mib * kBytesPerMib;
  request.cards = static_cast<int>(cards);
  if (cards == 1 && milli == 0) return table.wrong(row, "gpu_milli", "is 0, but num_gpu is 1; write 1 to 1000");
  if (cards >= 1) request.milli = cards == 1 ? static_cast<int>(milli) : kWholeCard;
  if (table.has("gpu_spec")) request.kinds = read_models(table.text(row, "gpu_spec"), kinds);
  if (kinds.size() > kMaxModels) return table.wrong(row, "gpu_spec", "there are too many models");
  return request;
}

Result<std::vector<TracePod>> read_pods(const Table& table, Kinds& kinds, bool has_times) {
  HEDDLE_CHECK_OK(table.need({"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"}));
  std::vector<TracePod> pods;
  pods.reserve(table.rows().size());
  for (const Row& row : table.rows()) {
    TracePod pod;
    HEDDLE_TRY(pod.request, read_request(table, row, kinds));
    if (has_times) {
      HEDDLE_TRY(pod.created, table.number(row, "creation_time", kMaxAmount));
      HEDDLE_TRY(pod.deleted, table.number(row, "deletion_time", kMaxAmount));
      if (pod.deleted < pod.created) {
        return table.wrong(row, "deletion_time",
                           fmt::format("{} is before creation_time {}", pod.deleted, pod.created));
      }
    }
    pods.push_back(std::move(pod));
  }
  return pods;
}

}  // namespace

int64_t Trace::card_milli() const {
  int64_t milli = 0;
  for (const Node& node : nodes) milli += int64_t{kWholeCard} * static_cast<int64_t>(node.free_milli.size());
  return milli;
}

Result<Trace> parse_trace(const NamedText& nodes, const NamedText& pods) {
  HEDDLE_TRY(const Table node_table, Table::parse(nodes));
  HEDDLE_TRY(const Table pod_table, Table::parse(pods));
  Trace trace;
  Kinds kinds(trace.models);
  HEDDLE_TRY(trace.nodes, read_nodes(node_table, kinds));
  trace.has_times = pod_table.has("creation_time") && pod_table.has("deletion_time");
  HEDDLE_TRY(trace.pods, read_pods(pod_table, kinds, trace.has_times));
  return trace;
}

}  // namespace heddle::placement
