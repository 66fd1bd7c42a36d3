// Package numbers compares quantities and semantic versions with the Go implementations, on large generated tables.
package numbers

import (
	"bufio"
	"encoding/json"
	"math"
	"math/rand"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/api/resource"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/library"
)

const size = 20000

type answer struct {
	Error               *string
	Text                string
	Value, Milli        *int64
	Sign, Order         int
	Sum                 *string
	Major, Minor, Patch uint64
}

// ask puts all questions to our code in one run.
func ask(t *testing.T, questions []map[string]any) []answer {
	t.Helper()
	var input strings.Builder
	encoder := json.NewEncoder(&input)
	for _, question := range questions {
		if err := encoder.Encode(question); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.Command(os.Getenv("HEDDLE_PROBE"))
	command.Stdin = strings.NewReader(input.String())
	output, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	var answers []answer
	lines := bufio.NewScanner(strings.NewReader(string(output)))
	lines.Buffer(nil, 1<<22)
	for lines.Scan() {
		var one answer
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		answers = append(answers, one)
	}
	if len(answers) != len(questions) {
		t.Fatalf("%d questions, %d answers", len(questions), len(answers))
	}
	return answers
}

func pick(random *rand.Rand, texts ...string) string { return texts[random.Intn(len(texts))] }

func digits(random *rand.Rand, most int) string {
	text := ""
	for n := random.Intn(most + 1); n > 0; n-- {
		text += pick(random, "0", "0", "1", "2", "5", "7", "9", "9")
	}
	return text
}

func quantityText(random *rand.Rand) string {
	text := pick(random, "", "", "", "-", "+") + digits(random, pickInt(random, 3, 6, 12, 21))
	if random.Intn(3) == 0 {
		text += "." + digits(random, pickInt(random, 1, 3, 9, 12))
	}
	text += pick(random, "", "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E6", "e-3", "e+2", "E-9", "e0", "e18")
	if random.Intn(20) == 0 { // break it somewhere; not with an e, as Go computes for minutes with exponents of many digits
		at := random.Intn(len(text) + 1)
		text = text[:at] + pick(random, " ", ".", "-", "i", "K", "x", "\t", "é", "_", "0x") + text[at:]
	}
	return text
}

func pickInt(random *rand.Rand, numbers ...int) int { return numbers[random.Intn(len(numbers))] }

var edges = []string{"9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "8Ei", "7Ei", "9223372036854775807m",
	"9223372036854775", "9223372036854776", "0.000000001", "0.0000000001", "-0.0000000001", "1e-10", "999999999999999999999", "1000E", "0", "-0", "+0", "", ".", "1.", ".5", "-.5"}

func quantityTexts(random *rand.Rand) []string {
	texts := append([]string{}, edges...)
	for len(texts) < size {
		texts = append(texts, quantityText(random))
	}
	return texts
}

func same(number *int64, inRange bool, want int64) bool {
	if !inRange {
		return number == nil
	}
	return number != nil && *number == want
}

func TestHeddleNumbers(t *testing.T) {
	t.Run("quantity-parse", testQuantities)
	t.Run("quantity-compare-and-add", testQuantityPairs)
	t.Run("semver-strict", func(t *testing.T) { testVersions(t, false) })
	t.Run("semver-normalized", func(t *testing.T) { testVersions(t, true) })
	t.Run("semver-compare", testVersionPairs)
}

func testQuantities(t *testing.T) {
	texts := quantityTexts(rand.New(rand.NewSource(1)))
	var questions []map[string]any
	for _, text := range texts {
		questions = append(questions, map[string]any{"op": "quantity", "text": text})
	}
	accepted := 0
	for i, ours := range ask(t, questions) {
		want, err := resource.ParseQuantity(texts[i])
		if (err != nil) != (ours.Error != nil) {
			t.Errorf("%q: Go says %v, we say %v", texts[i], err, ours.Error)
		}
		if err != nil || ours.Error != nil {
			continue
		}
		accepted++
		if text := want.String(); ours.Text != text {
			// Beyond the suffix E upstream drops an exponent, and with it the value.
			again, err := resource.ParseQuantity(text)
			mine, mineErr := resource.ParseQuantity(ours.Text)
			if mineErr != nil || mine.Cmp(want) != 0 || (err == nil && again.Cmp(want) == 0) {
				t.Errorf("%q: Go writes %q, we write %q", texts[i], text, ours.Text)
			}
		}
		if ours.Sign != want.Sign() {
			t.Errorf("%q: sign %d, we say %d", texts[i], want.Sign(), ours.Sign)
		}
		if want.Sign() < 0 {
			continue // Value() and MilliValue() of a negative number are not to be followed: of "-9Pi" they give -7493989778
		}
		if inRange := want.CmpInt64(math.MaxInt64) <= 0; !same(ours.Value, inRange, want.Value()) {
			t.Errorf("%q: value %d, we say %v", texts[i], want.Value(), ours.Value)
		}
		const most = math.MaxInt64 / 1000
		if want.CmpInt64(most) <= 0 && !same(ours.Milli, true, want.MilliValue()) {
			t.Errorf("%q: milli %d, we say %v", texts[i], want.MilliValue(), ours.Milli)
		}
	}
	if accepted < size/2 {
		t.Errorf("only %d of %d texts are quantities", accepted, size)
	}
}

func testQuantityPairs(t *testing.T) {
	random := rand.New(rand.NewSource(2))
	var questions []map[string]any
	var pairs [][2]resource.Quantity
	texts := quantityTexts(random)
	for len(pairs) < size {
		a, b := pick(random, texts...), pick(random, texts...)
		first, err1 := resource.ParseQuantity(a)
		second, err2 := resource.ParseQuantity(b)
		if err1 != nil || err2 != nil || first.CmpInt64(math.MinInt64) <= 0 || second.CmpInt64(math.MinInt64) <= 0 {
			continue // what is less than -2^63 is cut by Go
		}
		pairs = append(pairs, [2]resource.Quantity{first, second})
		questions = append(questions, map[string]any{"op": "quantities", "a": a, "b": b})
	}
	for i, ours := range ask(t, questions) {
		if want := pairs[i][0].Cmp(pairs[i][1]); ours.Order != want {
			t.Errorf("%v: order %d, we say %d", questions[i], want, ours.Order)
		}
		sum := pairs[i][0].DeepCopy()
		sum.Add(pairs[i][1])
		if ours.Sum == nil {
			t.Errorf("%v: no sum", questions[i])
		} else if mine, err := resource.ParseQuantity(*ours.Sum); *ours.Sum != sum.String() && (err != nil || mine.Cmp(sum) != 0) {
			t.Errorf("%v: sum %s, we say %s", questions[i], sum.String(), *ours.Sum)
		}
	}
}

func versionText(random *rand.Rand) string {
	number := func() string {
		return pick(random, "0", "1", "2", "10", "00", "01", "18446744073709551615", "18446744073709551616", "7", digits(random, 3))
	}
	var parts []string
	for n := pickInt(random, 1, 2, 3, 3, 3, 3, 3, 4); n > 0; n-- {
		parts = append(parts, number())
	}
	text := pick(random, "", "", "", "", "v", "V") + strings.Join(parts, ".")
	identifiers := func() string {
		var list []string
		for n := random.Intn(4); n >= 0; n-- {
			list = append(list, pick(random, "alpha", "1", "0", "01", "rc", "-", "a-b", "18446744073709551616", "", "x9", "é", "B"))
		}
		return strings.Join(list, ".")
	}
	if random.Intn(3) == 0 {
		text += "-" + identifiers()
	}
	if random.Intn(4) == 0 {
		text += "+" + identifiers()
	}
	return text
}

// versionParser is semver(text, normalize) of CEL, as the API server has it.
func versionParser(t *testing.T) func(string, bool) (semver.Version, error) {
	t.Helper()
	env, err := cel.NewEnv(library.SemverLib(library.SemverVersion(1)), cel.Variable("text", cel.StringType), cel.Variable("normalize", cel.BoolType))
	if err != nil {
		t.Fatal(err)
	}
	ast, issues := env.Compile("semver(text, normalize)")
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	program, err := env.Program(ast)
	if err != nil {
		t.Fatal(err)
	}
	return func(text string, normalized bool) (semver.Version, error) {
		value, _, err := program.Eval(map[string]any{"text": text, "normalize": normalized})
		if err != nil {
			return semver.Version{}, err
		}
		return value.(apiservercel.Semver).Version, nil
	}
}

func testVersions(t *testing.T, normalized bool) {
	random := rand.New(rand.NewSource(3))
	var texts []string
	var questions []map[string]any
	for len(texts) < size {
		text := versionText(random)
		texts = append(texts, text)
		questions = append(questions, map[string]any{"op": "version", "text": text, "normalize": normalized})
	}
	parse := versionParser(t)
	accepted := 0
	for i, ours := range ask(t, questions) {
		want, err := parse(texts[i], normalized)
		if (err != nil) != (ours.Error != nil) {
			t.Errorf("%q: Go says %v, we say %v", texts[i], err, ours.Error)
		}
		if err != nil || ours.Error != nil {
			continue
		}
		accepted++
		if ours.Text != want.String() || ours.Major != want.Major || ours.Minor != want.Minor || ours.Patch != want.Patch {
			t.Errorf("%q: Go reads %s, we read %s", texts[i], want, ours.Text)
		}
	}
	if accepted < size/50 {
		t.Errorf("only %d of %d texts are versions", accepted, size)
	}
}

func testVersionPairs(t *testing.T) {
	random := rand.New(rand.NewSource(4))
	var versions []semver.Version
	for len(versions) < 2*size {
		if version, err := semver.Parse(versionText(random)); err == nil {
			versions = append(versions, version)
		}
	}
	var questions []map[string]any
	for i := 0; i < size; i++ {
		questions = append(questions, map[string]any{"op": "versions", "a": versions[2*i].String(), "b": versions[2*i+1].String()})
	}
	for i, ours := range ask(t, questions) {
		if want := versions[2*i].Compare(versions[2*i+1]); ours.Order != want {
			t.Errorf("%v: order %d, we say %d", questions[i], want, ours.Order)
		}
	}
}
