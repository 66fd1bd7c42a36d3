package cel

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/cel-go/checker"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/utils/ptr"
)

// Selectors for each rule of the estimate.
var estimated = []string{
	`true`, `device.driver == "a"`, `device.driver != device.driver`, `device.allowMultipleAllocations`, `device.allowMultipleAllocations == true`,
	`device.attributes["a"].b == "c"`, `device.attributes["a"].b == 1`, `device.attributes["a"]["b"] == device.attributes["c"].d`,
	`device.attributes["a"].b.startsWith("xyz")`, `device.driver.startsWith("xyz")`, `device.driver.endsWith(device.driver)`,
	`device.driver.contains("x")`, `device.driver.contains(device.driver)`, `device.attributes["a"].b.contains("c")`,
	`device.driver.matches("^a.*b$")`, `matches(device.driver, "^a.*b$")`, `device.driver.matches(device.driver)`, `device.attributes["a"].b.matches("^a")`,
	`device.driver.find("[0-9]+") == ""`, `device.driver.findAll("[0-9]+").size() == 1`, `device.driver.findAll("[0-9]+", 2).all(x, x == "1")`,
	`device.driver + device.driver == "ab"`, `device.driver + device.driver == device.driver`, `device.attributes.all(a, device.attributes.all(b, a == b))`, `device.driver < "b"`, `device.driver >= "b"`, `1 < 2`, `device.attributes["a"].b < "x"`, `device.attributes["a"].b < 3`,
	`device.driver in ["a", "bb"]`, `device.attributes["a"].b in ["a", "bb", "ccc"]`, `"a" in device.attributes`, `"a" in device.attributes["b"]`,
	`device.attributes.exists(d, d == "x")`, `device.attributes["a"].exists(k, k == "x")`, `device.attributes["a"].all(k, v, k == v)`,
	`device.attributes.all(d, m, m.exists(k, k == d))`, `device.capacity["a"].all(k, v, v.isGreaterThan(quantity("1")))`,
	`device.capacity["a"].exists(k, k.startsWith("m"))`, `device.capacity["a"].m == quantity("1Gi")`, `device.capacity["a"].m.compareTo(quantity("1Gi")) >= 0`,
	`device.capacity["a"]["m"] == device.capacity["a"]["n"]`, `quantity("1Gi").add(1).sub(quantity("1")).asInteger() > 2`, `isQuantity(device.driver)`,
	`device.attributes["a"].v.isGreaterThan(semver("1.2.3"))`, `device.attributes["a"].v == semver("1.2.3")`, `semver("v1.2", true).major() == 1`, `isSemver("1.0.0")`,
	`has(device.attributes["a"].b)`, `has(device.attributes["a"].b) && device.attributes["a"].b == "x"`, `device.attributes["a"].?b.orValue("c") == "c"`,
	`device.attributes[?"a"].?b.hasValue()`, `device.attributes["a"].?b.optMap(x, x == "1").orValue(false)`, `device.attributes["a"].?b.optFlatMap(x, optional.of(x)).hasValue()`,
	`optional.of(device.driver).or(optional.none()).value() == ""`, `optional.ofNonZeroValue(1).orValue(2) == 1`,
	`cel.bind(a, device.attributes["a"], a.b == "c" && a.d == "e")`, `cel.bind(a, device.attributes["a"], a.exists(k, k == "a" && a.b == 1))`,
	`cel.bind(a, device.attributes["a"], a.exists(k, a.b == 1 && k == "a"))`, `cel.bind(a, device.attributes, a["x"].y == a["z"].w)`,
	`cel.bind(d, device.driver, d + d == d)`, `cel.bind(l, ["abc", "d"], l.exists(x, x == device.driver))`, `cel.bind(m, {"abc": "d"}, m.all(k, v, k == v))`,
	`[1, 2, 3].all(x, x > 0)`, `["a", "bb"].exists(x, x == "bb")`, `["a", "bb"].exists_one(x, x == device.driver)`, `["a"].map(x, x + x) == ["aa"]`,
	`["a"].map(x, x == "a", x + "b") == []`, `["a", "bb"].filter(x, x != "a").size() == 1`, `["a", device.driver].filter(x, x != "a").map(x, x + x).exists(x, x == "b")`,
	`[[1, 2], [3]].all(x, x.all(y, y > 0))`, `{"a": 1, "bb": 2}.all(k, v, v > 0)`, `{"a": "b"}.exists(k, k == "a")`, `{"a": "b"}["a"] == "b"`, `["a", "bbb"][0] == "a"`,
	`["a", "bbb"].transformList(i, v, v + "x") == []`, `["a"].transformList(i, v, i > 0, v) == []`, `{"a": "b"}.transformMap(k, v, v + k) == {}`,
	`["a", "b"].transformMapEntry(i, v, {v: i}) == {}`, `["a", "b"].existsOne(i, v, v == "a")`, `device.attributes["a"].l.exists(x, x == 1)`,
	`device.attributes["a"].l[0] == "x"`, `device.attributes["a"].l.size() > 1`, `device.attributes["a"].l.includes("x")`, `device.attributes["a"].l.all(x, x.startsWith("y"))`,
	`[1, 2].isSorted()`, `["a", "b"].isSorted()`, `[1, 2].sum() == 3`, `[1, 2].max() == 2`, `["a", "bb"].min() == "a"`, `[1, 2].indexOf(2) == 1`, `["a", "b"].lastIndexOf("a") == 0`,
	`device.driver.indexOf("a") == 0`, `device.driver.lastIndexOf("a", 3) == 0`, `device.driver.lowerAscii() == "a"`, `device.driver.upperAscii().trim() == "A"`,
	`device.driver.substring(2) == "a"`, `device.driver.substring(2, 4) == "a"`, `device.driver.charAt(1) == "a"`, `device.driver.replace("a", "bb") == ""`,
	`device.driver.replace("", "bb") == ""`, `device.driver.replace("aaa", "b") == ""`, `device.driver.replace("a", "b", 2).replace("cc", "d") == ""`,
	`device.driver.replace(device.driver, "xx") == ""`, `device.driver.replace("x", device.driver) == ""`, `device.attributes["a"].b.replace("a", "bb") == "c"`,
	`string(device.attributes["a"].b).replace("a", "bb") == "c"`, `device.driver.split(",").size() > 1`, `device.driver.split(",", 3).all(x, x == "a")`,
	`device.driver.split(",").map(x, x + "y").join("-") == "z"`, `["a", "bb"].join() == "abb"`, `["a", "bb"].join(",") == "abb"`, `device.driver.split("").join(device.driver) == ""`,
	`strings.quote(device.driver) == "a"`, `strings.quote("ab\"") == "a"`, `"%s %d".format([device.driver, 1]) == "a"`, `bytes(device.driver) == b"abc"`, `string(b"abc") == "abc"`,
	`b"ab" + b"c" == b"abc"`, `b"a" < b"b"`, `size(device.driver) > 3`, `device.driver.size() > 3`, `size(device.attributes) > 3`, `size([1, 2]) > 3`,
	`sets.contains([1, 2], [1])`, `sets.equivalent(["a"], ["b", "c"])`, `sets.intersects(device.driver.split(","), ["b"])`, `[1, 2].slice(0, 1) == [1]`,
	`device.driver.split(",").slice(0, 1).size() == 1`, `[[1], [2, 3]].flatten() == [1]`, `[[[1]], [[2]]].flatten(2) == [1]`, `[1, [2]].flatten(-1) == []`,
	`lists.range(5).all(x, x < 5)`, `lists.range(size(device.driver)).all(x, x < 5)`, `[1, 2, 2].distinct().size() == 2`, `[3, 1].sort()[0] == 1`, `["b", "a"].sort()[0] == "a"`,
	`[1, 2].reverse() == [2, 1]`, `["b", "a"].sortBy(x, x)[0] == "a"`, `["b", "a"].sortBy(x, size(x))[0] == "a"`, `device.attributes["a"].l.sort() == [1]`, `[1, 2].first().hasValue()`,
	`[1, 2].last().value() == 2`, `[optional.of(1)].unwrapOpt() == [1]`, `ip("1.2.3.4") == ip("::1")`, `ip(device.driver).family() == 4`, `isIP(device.driver)`, `ip.isCanonical(device.driver)`,
	`cidr("10.0.0.0/8").containsIP("10.0.0.1")`, `cidr("10.0.0.0/8").containsIP(ip("10.0.0.1"))`, `cidr("10.0.0.0/8").containsCIDR("10.0.0.0/9")`,
	`cidr("10.0.0.0/8").containsCIDR(cidr("10.0.0.0/9"))`, `cidr("10.0.0.0/8").ip() == ip("10.0.0.0")`, `cidr("10.0.0.0/8").masked() == cidr(device.driver)`, `isCIDR("a")`,
	`cidr("10.0.0.0/8").prefixLength() == 8`, `url("https://a.b/c").getHost() == "a.b"`, `isURL(device.driver)`, `url("https://a") == url(device.driver)`,
	`url("https://a/?b=c").getQuery()["b"][0] == "c"`, `!format.dns1123Label().validate(device.driver).hasValue()`, `format.named("uuid").hasValue()`,
	`format.uuid() == format.date()`, `timestamp("2020-01-01T00:00:00Z") < timestamp("2021-01-01T00:00:00Z")`, `duration("1s") + duration("2s") == duration("3s")`,
	`timestamp("2020-01-01T00:00:00Z").getFullYear() == 2020`, `type(device.driver) == string`, `type(1) == int`, `dyn(device.driver) == "a"`, `dyn([1, "a"]) == []`,
	`device.driver == "a" ? device.driver == "b" : device.attributes["a"].b == "c"`, `(device.driver == "a" ? "x" : device.driver) == "longer than this"`,
	`(true ? ["a"] : ["bb", "c"]).exists(x, x == "y")`, `(["a"] + ["bb", device.driver]).exists(x, x == "y")`, `device.driver == "a" || device.driver == "b" || true && false`,
	`!(device.driver == "a")`, `-1 < 2 && -(1 + 2) < 0`, `1.5 + 2.5 * 3.0 > 2.0 / 1.0 - 1.0`, `7 % 3 == 1u % 1u`, `int("1") == 1 && double(1) == 1.0 && uint(1) == 1u && bool("true")`,
	`string(1) == "1" && string(device.driver) == "x"`, `"ab\u00e9" == device.driver`, `{"a": [1, 2]}["a"].all(x, x > 0)`, `[{"a": "b"}].all(m, m["a"] == "b")`,
	`[1, 2].map(x, [x, x]).all(l, l.all(y, y > 0))`, `["a", "b"].map(x, {x: x}).exists(m, m.exists(k, k == "a"))`, `[?optional.of(1), 2].size() == 2`, `{?"a": optional.of(1)}.size() == 1`,
	`[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, [0,1,2,3,4,5,6,7,8,9].all(d, true))))`,
	`device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, device.attributes.all(d, a == b))))`, `null == null`, `[] == []`, `{} == {}`, `[].exists(x, x)`,
	`cel.bind(x, 1, cel.bind(y, x + 1, [x, y].all(z, z > x)))`, `device == device`, `device.attributes == device.attributes`, `device.driver.reverse() == "a"`, `has(device.driver)`,
}

// expressions of upstream's own tests; those that are no selectors are left out by the compiler.
func upstreamExpressions(t *testing.T) []string {
	pattern := regexp.MustCompile("\\b(?:expr|expression|E):\\s*(`[^`]*`|\"(?:[^\"\\\\\\n]|\\\\.)*\")")
	var all []string
	for _, folder := range strings.Fields(os.Getenv("HEDDLE_CEL_SOURCES")) {
		files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no tests in %s: %v", folder, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range pattern.FindAllStringSubmatch(string(text), -1) {
				if expression, err := strconv.Unquote(match[1]); err == nil {
					all = append(all, expression)
				}
			}
		}
	}
	return all
}

// probe asks conformance_probe.
type probe struct {
	in  io.Writer
	out *bufio.Reader
}

func startProbe(t *testing.T) probe {
	command := exec.Command(os.Getenv("HEDDLE_PROBE"))
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = command.Wait()
	})
	return probe{in, bufio.NewReader(out)}
}

type estimateAnswer struct {
	Min, Max uint64
	Error    string
}

func (p probe) estimate(t *testing.T, expression string, features Features, env environment.Type) estimateAnswer {
	var answer estimateAnswer
	p.ask(t, map[string]any{
		"op": "estimate", "expression": expression, "new": env == environment.NewExpressions,
		"capacity": features.EnableConsumableCapacity, "lists": features.EnableListTypeAttributes,
	}, &answer)
	return answer
}

func (p probe) ask(t *testing.T, asked map[string]any, answer any) {
	question, err := json.Marshal(asked)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(p.in, "%s\n", question); err != nil {
		t.Fatal(err)
	}
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(line, answer); err != nil {
		t.Fatal(err)
	}
}

// upstreamEstimate compiles as the API server does. False: it does not compile.
func upstreamEstimate(t *testing.T, expression string, features Features, env environment.Type) (checker.CostEstimate, bool) {
	compiler := GetCompiler(features)
	result := compiler.CompileCELExpression(expression, Options{EnvType: ptr.To(env)})
	if result.Error != nil {
		return checker.CostEstimate{}, false
	}
	ast, issues := result.Environment.Compile(expression)
	if issues != nil {
		t.Fatal(issues)
	}
	cost, err := result.Environment.EstimateCost(ast, compiler.newCostEstimator(result.typesFromEnv))
	if err != nil || cost.Max != result.MaxCost {
		t.Fatalf("%v, %d is not %d", err, cost.Max, result.MaxCost)
	}
	return cost, true
}

// TestHeddleEstimates compares what compiles, and the least and the largest cost with upstream's estimate.
func TestHeddleEstimates(t *testing.T) {
	tables := map[string][]string{"own": estimated, "upstream": upstreamExpressions(t)}
	for _, scenario := range testcases {
		tables["selectors"] = append(tables["selectors"], scenario.expression)
	}
	asked := startProbe(t)
	for name, expressions := range tables {
		for _, lists := range []bool{false, true} {
			for _, env := range []environment.Type{environment.NewExpressions, environment.StoredExpressions} {
				features := Features{EnableConsumableCapacity: true, EnableListTypeAttributes: lists}
				t.Run(fmt.Sprintf("%s, %s, lists=%v", name, env, lists), func(t *testing.T) {
					compared := 0
					for _, expression := range expressions {
						want, compiles := upstreamEstimate(t, expression, features, env)
						got := asked.estimate(t, expression, features, env)
						if !compiles {
							if got.Error == "" {
								t.Errorf("%s\n  upstream does not compile it", expression)
							}
							continue
						}
						compared++
						if got.Error != "" || got.Min != want.Min || got.Max != want.Max {
							t.Errorf("%s\n  upstream %d to %d, heddle %d to %d %s", expression, want.Min, want.Max, got.Min, got.Max, got.Error)
						}
					}
					t.Logf("%d of %d expressions compared", compared, len(expressions))
					if compared == 0 {
						t.Error("nothing was compared")
					}
				})
			}
		}
	}
}

// TestHeddleEvaluations compares what the expressions evaluate to on a device. What an evaluation is charged may differ, but not
// so much that what upstream allows is stopped here.
func TestHeddleEvaluations(t *testing.T) {
	device := resourceapi.Device{
		AllowMultipleAllocations: ptr.To(true),
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"a/b": {StringValue: ptr.To("c")}, "a/i": {IntValue: ptr.To(int64(3))}, "a/v": {VersionValue: ptr.To("1.2.3")},
			"a/l": {StringValues: []string{"x", "y"}}, "c/d": {StringValue: ptr.To("e")}, "own": {BoolValue: ptr.To(true)},
		},
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			"a/m": {Value: resource.MustParse("1Gi")}, "a/n": {Value: resource.MustParse("1024Mi")},
		},
	}
	input := Device{Driver: "d.example.com", AllowMultipleAllocations: device.AllowMultipleAllocations, Attributes: device.Attributes, Capacity: device.Capacity}
	compiler := GetCompiler(Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
	asked := startProbe(t)
	for name, expressions := range map[string][]string{"own": estimated, "upstream": upstreamExpressions(t)} {
		t.Run(name, func(t *testing.T) {
			compared, failing, equal := 0, 0, 0
			for _, expression := range expressions {
				result := compiler.CompileCELExpression(expression, Options{})
				if result.Error != nil {
					continue
				}
				compared++
				want, details, err := result.DeviceMatches(context.Background(), input)
				var got struct {
					Matches bool
					Cost    uint64
					Error   string
				}
				asked.ask(t, map[string]any{"op": "evaluate", "expression": expression, "device": device, "driver": input.Driver}, &got)
				switch {
				case err != nil || got.Error != "":
					failing++
					if (err != nil) != (got.Error != "") {
						t.Errorf("%s\n  upstream %v %v, heddle %v %s", expression, want, err, got.Matches, got.Error)
					}
				case want != got.Matches:
					t.Errorf("%s\n  upstream %v, heddle %v", expression, want, got.Matches)
				case got.Cost == *details.ActualCost():
					equal++
				case got.Cost > 100+2**details.ActualCost():
					t.Errorf("%s\n  upstream charges %d, heddle %d", expression, *details.ActualCost(), got.Cost)
				}
			}
			t.Logf("%d compared, of which %d fail; %d are charged the same", compared, failing, equal)
		})
	}
}
