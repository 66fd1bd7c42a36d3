#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cel/program.h"

namespace heddle::cel {
namespace {

model::Device test_device() {
  model::Device device;
  device.name = "gpu-0";
  device.allow_multiple_allocations = true;
  device.attributes["model"] = std::string("H100");
  device.attributes["index"] = int64_t{3};
  device.attributes["healthy"] = true;
  device.attributes["driverVersion"] = model::Version{"570.86.15"};
  device.attributes["resource.kubernetes.io/numaNode"] = int64_t{1};
  device.attributes["links"] = std::vector<std::string>{"a", "b"};
  device.attributes["ports"] = std::vector<int64_t>{4, 9};
  device.capacity["memory"] = {*Quantity::parse("80Gi"), {}};
  return device;
}

// "true", "false", "compile: message" or "error: message".
std::string outcome(std::string_view expression, const EnvironmentOptions& options = {}) {
  Environment environment(options);
  auto program = Program::compile(expression, environment);
  if (!program) return "compile: " + program.error().message;
  model::Device device = test_device();
  DeviceView view(device, "accelerator.heddle.dev");
  Evaluator evaluator;
  auto result = evaluator.matches(**program, view);
  if (!result) return "error: " + result.error().message;
  return *result ? "true" : "false";
}

class CelTrue : public testing::TestWithParam<const char*> {};

TEST_P(CelTrue, Holds) {
  EXPECT_EQ(outcome(GetParam()), "true");
}

INSTANTIATE_TEST_SUITE_P(
    Device, CelTrue,
    testing::Values(R"(device.driver == "accelerator.heddle.dev")", R"(device.allowMultipleAllocations)",
                    R"(device.attributes["accelerator.heddle.dev"].model == "H100")",
                    R"(device.attributes["accelerator.heddle.dev"]["index"] == 3)",
                    R"(device.attributes["resource.kubernetes.io"].numaNode == 1)",
                    R"(device.attributes["accelerator.heddle.dev"].model in ["A100", "H100"])",
                    R"(device.capacity["accelerator.heddle.dev"].memory.isGreaterThan(quantity("40Gi")))",
                    R"(device.capacity["accelerator.heddle.dev"].memory == quantity("81920Mi"))",
                    R"(device.attributes["accelerator.heddle.dev"].driverVersion.isGreaterThan(semver("550.0.0")))",
                    R"(!("nope" in device.attributes))", R"(has(device.attributes["accelerator.heddle.dev"].model))",
                    R"(!has(device.attributes["accelerator.heddle.dev"].nope))",
                    R"(!has(device.attributes["unknown.example.com"].nope))",
                    R"(cel.bind(a, device.attributes["accelerator.heddle.dev"], a.healthy && a.index == 3))",
                    R"("a" in device.attributes["accelerator.heddle.dev"].links)",
                    R"(device.attributes["accelerator.heddle.dev"].links.includes("b"))",
                    R"(device.attributes["accelerator.heddle.dev"].model.includes("H100"))",
                    R"(device.attributes["accelerator.heddle.dev"].ports.all(p, p > 3))",
                    R"(device.attributes.exists_one(d, d == "resource.kubernetes.io"))",
                    R"(device.attributes["accelerator.heddle.dev"].?nope.orValue("x") == "x")"));

INSTANTIATE_TEST_SUITE_P(
    Language, CelTrue,
    testing::Values(
        "1 + 2 * 3 == 7", "(1 + 2) * 3 == 9", "-9223372036854775808 < 0", "--5 == 5", "7 % 3 == 1", "-7 / 2 == -3",
        "0x10 == 16", "1u + 2u == 3u", "dyn(1) == 1u && dyn(1) == 1.0", "1 < 1.5 && 2u > 1", "1.5e3 == 1500.0",
        "'a' + \"b\" == 'ab'", "b'ab' == bytes('ab')", R"('\u00e9'.size() == 1 && "\n" == '\x0a')",
        R"(r'\n'.size() == 2)", R"('''a
b''' == "a\nb")",
        "true ? true : 1 / 0 == 1", "false || true && true", "true || 1 / 0 == 1", "1 / 0 == 1 || true",
        "!(false && 1 / 0 == 1)", "[1, 2, 3][1] == 2", "{'a': 1}['a'] == 1", "{'a': 1}.a == 1", "1 in {1: 2}",
        "[1, 2] + [3] == [1, 2, 3]", "[1, 2, 3].map(x, x * 2) == [2, 4, 6]", "[1, 2, 3].map(x, x > 1, x * 2) == [4, 6]",
        "[1, 2, 3].filter(x, x != 2) == [1, 3]", "[1, 2, 3].exists(x, x == 2)", "[1, 2, 2].exists_one(x, x == 1)",
        "[0, 1].exists(x, 1 / x == 1)", "![].exists(x, x == 1)", "[10, 20].all(i, v, v == (i + 1) * 10)",
        "[10, 20].transformList(i, v, v + i) == [10, 21]", "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
        "{'a': 'b'}.transformMapEntry(k, v, {v: k}) == {'b': 'a'}",
        "type(1) == int && type('') == string && type([]) == list && type(dyn(1)) != uint", "size('h\u00e9') == 2",
        "int('12') == 12", "uint(3) == 3u", "double('1.5') == 1.5", "string(12) == '12' && string(true) == 'true'",
        "bool('true')", "int(3.9) == 3", "optional.of(1).hasValue() && !optional.none().hasValue()",
        "[?optional.of(1), ?optional.none()] == [1]", "{'a': 1}[?'b'].orValue(2) == 2",
        "optional.of(2).optMap(x, x * 2).value() == 4", "[1, 2].first().value() == 1 && [1, 2].last().value() == 2",
        "timestamp('2026-11-29T18:33:46Z').getFullYear() == 2026",
        "timestamp('2026-11-29T18:33:46Z').getDayOfWeek() == 0",
        "timestamp('2026-11-29T23:30:00Z').getHours('+02:00') == 1", "duration('1h30m') == duration('5400s')",
        "timestamp('2026-01-01T00:00:00Z') + duration('24h') == timestamp('2026-01-02T00:00:00Z')",
        "string(duration('90m')) == '5400s'", "timestamp('2024-02-29T00:00:00Z').getDayOfYear() == 59",
        "null == null && dyn(1) != null", "[[1, 2], [3]].flatten() == [1, 2, 3]"));

INSTANTIATE_TEST_SUITE_P(
    Libraries, CelTrue,
    testing::Values(
        "'tacocat'.charAt(3) == 'o'", "'hello mellow'.indexOf('ello', 2) == 7",
        "'hello mellow'.lastIndexOf('ello') == 7", "'TacoCat'.lowerAscii() == 'tacocat'",
        "'TacoCat'.upperAscii() == 'TACOCAT'", "'hello hello'.replace('he', 'we', 1) == 'wello hello'",
        "'a,b,c'.split(',', 2) == ['a', 'b,c']", "'abc'.split('') == ['a', 'b', 'c']",
        "'tacocat'.substring(0, 4) == 'taco'", "' \t x '.trim() == 'x'", "['a', 'b'].join('-') == 'a-b'",
        "'ab'.replace('', '-') == '-a-b-'",
        "'%s is %d, %.2f, %x'.format([dyn('n'), 5, 1.0, 255]) == 'n is 5, 1.00, ff'",
        "strings.quote('a\"b') == '\"a\\\\\"b\"'", "'abc 123'.find('[0-9]+') == '123'",
        "'1 22 3'.findAll('[0-9]+', 2) == ['1', '22']", "'H100'.matches('^H[0-9]+$')",
        "'abc'.startsWith('ab') && 'abc'.endsWith('bc') && 'abc'.contains('b')",
        "[1, 2, 3].sum() == 6 && [3, 1].max() == 3 && [3, 1].min() == 1", "[1, 2].isSorted() && ![2, 1].isSorted()",
        "[1, 2, 1].lastIndexOf(1) == 2 && ['a'].indexOf('b') == -1", "[3, 1, 2].sort() == [1, 2, 3]",
        "['bb', 'a'].sortBy(x, x.size()) == ['a', 'bb']", "[1, 1, 2].distinct() == [1, 2]",
        "[1, 2, 3, 4].slice(1, 3) == [2, 3]", "lists.range(3) == [0, 1, 2]", "[1, 2].reverse() == [2, 1]",
        "sets.contains([1, 2], [2]) && sets.equivalent([1, 1], [1]) && !sets.intersects([1], [2])",
        "quantity('1Gi').asInteger() == 1073741824", "quantity('50k').sub(20000) == quantity('30k')",
        "quantity('1.5').isInteger() == false && quantity('2').add(quantity('500m')) == quantity('2.5')",
        "isQuantity('20Mi') && !isQuantity('20Mx')", "sign(quantity('-1')) == -1",
        "quantity('1500m').asApproximateFloat() == 1.5", "quantity('1').compareTo(quantity('2')) == -1",
        "semver('1.2.3').major() == 1 && semver('1.2.3-alpha').isLessThan(semver('1.2.3'))",
        "semver('v1.02', true) == semver('1.2.0')", "!isSemver('1.2') && isSemver('1.2', true)",
        "semver('1.0.0-alpha.2').isLessThan(semver('1.0.0-alpha.10'))",
        "ip('10.0.0.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.1.2.3')",
        "!isIP('::ffff:1.2.3.4') && ip('::1').isLoopback()",
        "cidr('192.168.1.9/24').masked() == cidr('192.168.1.0/24')", "string(cidr('10.0.0.0/8').ip()) == '10.0.0.0'",
        "url('https://user@example.com:80/a?b=c').getHost() == 'example.com:80'",
        "url('https://a/b?x=1&x=2').getQuery() == {'x': ['1', '2']}",
        "!format.dns1123Label().validate('my-name').hasValue() && format.dns1123Label().validate('My').hasValue()"));

struct Refused {
  const char* name;
  const char* expression;
  const char* outcome;  // a part of it
};

class CelRefused : public testing::TestWithParam<Refused> {};

TEST_P(CelRefused, SaysWhy) {
  EXPECT_THAT(outcome(GetParam().expression), testing::HasSubstr(GetParam().outcome));
}

INSTANTIATE_TEST_SUITE_P(
    Table, CelRefused,
    testing::Values(
        Refused{"syntax", "?!", "compile: compilation failed: Syntax error"},
        Refused{"unfinished", "1 +", "unexpected end"},
        Refused{"not_bool", "1", "must evaluate to bool or the unknown type, not int"},
        Refused{"overload", "1 == 'a'", "found no matching overload for '_==_' applied to '(int, string)' at 1:3"},
        Refused{"undeclared", "nope == 1", "undeclared reference to 'nope' (in container '') at 1:1"},
        Refused{"no_function", "device.driver.nope()", "undeclared reference to 'nope'"},
        Refused{"no_field", "device.name == ''", "undefined field 'name'"},
        Refused{"reserved", "for == 1", "reserved identifier: for"},
        Refused{"mixed_list", "[1, 'a'].size() == 2", "expected type 'int' but found 'string'"},
        Refused{"has_argument", "has(device)", "invalid argument to has() macro"},
        Refused{"too_deep_type", "Foo{a: 1} == Foo{}", "undeclared reference to 'Foo'"},
        Refused{"missing_id", R"(device.attributes["accelerator.heddle.dev"].nope == 1)", "error: no such key: nope"},
        Refused{"missing_domain_id", R"(device.attributes["x.example.com"].nope == 1)", "error: no such key: nope"},
        Refused{"list_result", R"(device.attributes["accelerator.heddle.dev"].links)",
                "CEL result of type list could not be converted to bool"},
        Refused{"not_iterable", R"(device.attributes["accelerator.heddle.dev"].index.exists(x, x > 0))",
                "got 'types.Int', expected iterable type"},
        Refused{"overflow", "9223372036854775807 + 1 == 0", "integer overflow"},
        Refused{"division", "1 / 0 == 1", "division by zero"},
        Refused{"bad_quantity", "quantity('1x') == quantity('1')", "error: quantity"},
        Refused{"bounds", "[1][1] == 1", "index out of bounds: 1"},
        Refused{"bad_duration", "duration('1y') == duration('1s')",
                "compile: compilation failed: invalid duration argument"},
        Refused{"int_literal", "9223372036854775808 == 1", "invalid int literal"}),
    [](const auto& test) { return test.param.name; });

TEST(Cel, CostLimitStopsWhateverWouldAbsorbIt) {
  std::string nested = "true";
  for (char variable = 'a'; variable < 'h'; ++variable)
    nested.insert(0, std::string("[0,1,2,3,4,5,6,7,8,9].all(") + variable + ", ").append(")");
  EXPECT_EQ(outcome(nested), "error: operation cancelled: actual cost limit exceeded");
  EXPECT_EQ(outcome(nested + " || true"), "error: operation cancelled: actual cost limit exceeded");
}

TEST(Cel, MemoryOfHostileExpressionsIsBounded) {
  std::string doubling = "[1]";
  std::string open;
  for (int i = 0; i < 40; ++i) {
    std::string name = "v" + std::to_string(i);
    open.append("cel.bind(").append(name).append(", ").append(doubling).append(", ");
    doubling = name;
    doubling.append(" + ").append(name);
  }
  EXPECT_THAT(outcome(open + doubling + " == []" + std::string(40, ')')), testing::HasSubstr("cost limit exceeded"));
}

TEST(Cel, DepthIsBounded) {
  EXPECT_THAT(outcome(std::string(5000, '(') + "true" + std::string(5000, ')')), testing::HasSubstr("recursion limit"));
  std::string chain = "true";
  for (int i = 0; i < 900; ++i) chain += " && true";
  EXPECT_EQ(outcome(chain), "true");
}

TEST(Cel, NewExpressionsSeeWhatTheGatesAllow) {
  EnvironmentOptions gates{Mode::kNew, false, false};
  EXPECT_THAT(outcome("device.allowMultipleAllocations == true", gates),
              testing::HasSubstr("undefined field 'allowMultipleAllocations'"));
  EXPECT_THAT(outcome(R"(device.attributes["a.example.com"].b.includes("c"))", gates),
              testing::HasSubstr("undeclared reference to 'includes'"));
  EXPECT_THAT(outcome(R"(device.attributes["a.example.com"].b.exists(x, x == 1))", gates),
              testing::HasSubstr("compile: compilation failed"));
  gates.list_attributes = true;
  EXPECT_EQ(outcome(R"(device.attributes["accelerator.heddle.dev"].ports.exists(x, x == 9))", gates), "true");
}

TEST(Cel, DeviceWithABrokenAttributeFailsEveryEvaluation) {
  model::Device device;
  device.attributes["version"] = model::Version{"1.2"};
  DeviceView view(device, "d.example.com");
  Environment environment;
  auto program = Program::compile("true", environment);
  ASSERT_TRUE(program);
  Evaluator evaluator;
  auto result = evaluator.matches(**program, view);
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, testing::HasSubstr("attribute version: parse semantic version"));
}

// Upstream checks a constant pattern when it compiles, even where it is never reached; matches(text, pattern) by its
// text.
TEST(Cel, PatternsThatAreNotRegularExpressions) {
  EXPECT_EQ(outcome("true || device.driver.matches('[')"),
            "compile: compilation failed: invalid matches argument at 1:31");
  EXPECT_EQ(outcome("matches('(', device.driver)"), "compile: compilation failed: invalid matches argument at 1:9");
  EXPECT_EQ(outcome("matches(device.driver, 'a**')"),
            "compile: program instantiation failed: error parsing regexp: invalid nested repetition operator: `**`");
  EXPECT_EQ(outcome("false && device.driver.find('[') == ''"),
            "compile: program instantiation failed: error parsing regexp: missing closing ]: `[`");
  EXPECT_EQ(outcome("device.driver.findAll(string('a(b'), 2) == []"),
            "compile: program instantiation failed: error parsing regexp: missing closing ): `a(b`");
  EXPECT_EQ(outcome("device.driver.matches(device.driver + '\\\\')"),
            "error: error parsing regexp: trailing backslash at end of expression: ``");
  EXPECT_EQ(outcome("device.driver.find('(' + device.driver) == ''"),
            "error: Illegal regex: error parsing regexp: missing closing ): `(accelerator.heddle.dev`");
}

TEST(Cel, LiteralsHaveOneTypeButInFormat) {
  EXPECT_EQ(outcome("'%s %d'.format([device.driver, 1]) != ''"), "true");
  EXPECT_EQ(outcome("'%s'.format([[1, 'a', {1: 'b', 'c': 2}]]) != ''"), "true");
  EXPECT_EQ(outcome("[1, 'a'] == []"), "compile: compilation failed: expected type 'int' but found 'string' at 1:5");
  EXPECT_EQ(outcome("{1: 2, 'a': 3} == {}"),
            "compile: compilation failed: expected type 'int' but found 'string' at 1:8");
  EXPECT_EQ(outcome("{1: 2, 2: 'a'} == {}"),
            "compile: compilation failed: expected type 'int' but found 'string' at 1:11");
  EXPECT_EQ(outcome("[1, device.attributes['a'].b] == []"),
            "compile: compilation failed: expected type 'int' but found 'dyn' at 1:27");
  EXPECT_EQ(outcome("[?optional.of(1), 2] == [1, 2]"), "true");
}

TEST(Cel, ALeadingDotLeavesTheVariablesOfMacros) {
  EXPECT_EQ(outcome("[1].exists(device, .device.driver == 'accelerator.heddle.dev' && device == 1)"), "true");
  EXPECT_EQ(outcome("[0].exists(x, .x == 1)"),
            "compile: compilation failed: undeclared reference to 'x' (in container '') at 1:16");
}

TEST(Cel, WhatHasNoFieldsHasNotThisOne) {
  EXPECT_EQ(outcome("!has(dyn(1).x)"), "true");
  EXPECT_EQ(outcome("dyn(1).x == 2"), "error: no such overload");
}

TEST(Cel, PlacesBeyondTheTextAreNoErrors) {
  EXPECT_EQ(outcome("'tacocat'.indexOf('', 30) == 7 && 'tacocat'.lastIndexOf('', 30) == 7"), "true");
  EXPECT_EQ(outcome("'tacocat'.indexOf('t', 7) == -1 && 'tacocat'.indexOf('t', 30) == -1"), "true");
  EXPECT_EQ(outcome("'tacocat'.lastIndexOf('t', 7) == -1 && 'tacocat'.lastIndexOf('t', 6) == 6"), "true");
  EXPECT_EQ(outcome("'tacocat'.lastIndexOf('t') == 6 && 'tacocat'.lastIndexOf('at', 6) == 5"), "true");
  EXPECT_EQ(outcome("'tacocat'.indexOf('t', -1) == 0"), "error: index out of range: -1");
}

// A list of constants is made once: macros that add to it must not change it for the next evaluation.
TEST(Cel, ConstantListsStayAsTheyAre) {
  const Environment environment;
  const auto program = Program::compile(
      "[[1, 2].map(x, x + 1), [3].map(x, x)] == [[2, 3], [3]] && {1: [2]}.transformMap(k, v, v) == {1: [2]} && "
      "cel.bind(l, [1], (l + [2]).size() == 2 && l.size() == 1)",
      environment);
  ASSERT_TRUE(program);
  const model::Device device = test_device();
  const DeviceView view(device, "d");
  Evaluator evaluator;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(evaluator.matches(**program, view).value_or(false)) << i;
}

TEST(Cel, EstimatesAreUpstreams) {
  const Environment environment;
  const auto estimate = [&](std::string_view expression) {
    return Program::estimate(expression, environment).value_or(CostEstimate{});
  };
  EXPECT_EQ(estimate("device.driver == 'a'"), (CostEstimate{3, 3}));
  EXPECT_EQ(estimate("device.driver + device.driver == device.driver"), (CostEstimate{7, 26}));
  EXPECT_EQ(estimate("device.attributes.all(a, device.attributes.all(b, a == b))").max, 12'483U);
  EXPECT_EQ(estimate("device.attributes['a'].l.exists(x, x == 1)").max, 389U);
}

TEST(Cel, AStoredExpressionMayBeLongerThanTheApiServerTakes) {
  EXPECT_EQ(outcome("'" + std::string(99'990, 'x') + "' != ''"), "true");
  EXPECT_EQ(outcome("'" + std::string(100'000, 'x') + "' != ''"),
            "compile: compilation failed: expression code point size exceeds limit: size: 100008, limit 100000");
}

TEST(Cel, EveryDeclaredFunctionIsImplemented) {
  Environment environment;
  for (auto signatures : {standard_signatures(), extension_signatures()}) {
    for (std::string_view signature : signatures) {
      std::string_view head = signature.substr(0, signature.find('('));
      if (head.front() == '=') {
        head.remove_prefix(1);
      } else if (size_t dot = head.rfind('.'); dot != std::string_view::npos) {
        head.remove_prefix(dot + 1);
      }
      EXPECT_NE(environment.find_function(head), nullptr) << signature;
      EXPECT_EQ(outcome("true"), "true");
    }
  }
}

}  // namespace
}  // namespace heddle::cel
