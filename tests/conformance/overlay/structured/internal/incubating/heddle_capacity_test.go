package incubating

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// These take the place of upstream's functions in upstream's table for consumable capacity (run.sh renames the calls): our code answers.

type heddleAnswer struct {
	Error    *string
	Milli    json.RawMessage
	Possible bool
	Violates bool
	Consumed map[resourceapi.QualifiedName]string
}

func heddleAsk(question map[string]any) (heddleAnswer, error) {
	var answer heddleAnswer
	input, err := json.Marshal(question)
	if err != nil {
		return answer, err
	}
	command := exec.Command(os.Getenv("HEDDLE_PROBE"))
	command.Stdin = bytes.NewReader(append(input, '\n'))
	output, err := command.Output()
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(output, &answer); err != nil {
		return answer, err
	}
	switch {
	case answer.Error == nil:
		return answer, nil
	case strings.Contains(*answer.Error, "cannot be represented"):
		return answer, errCapacityRequestNotRepresentable
	}
	return answer, errors.New(*answer.Error)
}

func heddleText(quantity *resource.Quantity) string {
	text := quantity.String()
	if again, err := resource.ParseQuantity(text); err == nil && again.Cmp(*quantity) == 0 {
		return text
	}
	return quantity.AsDec().String() + "e0"
}

func heddleCapacity(capacity resourceapi.DeviceCapacity) map[string]any {
	object := map[string]any{"value": heddleText(&capacity.Value)}
	if capacity.RequestPolicy == nil {
		return object
	}
	policy := map[string]any{}
	if capacity.RequestPolicy.Default != nil {
		policy["default"] = heddleText(capacity.RequestPolicy.Default)
	}
	var values []string
	for i := range capacity.RequestPolicy.ValidValues {
		values = append(values, heddleText(&capacity.RequestPolicy.ValidValues[i]))
	}
	if values != nil {
		policy["validValues"] = values
	}
	if valid := capacity.RequestPolicy.ValidRange; valid != nil {
		limits := map[string]any{}
		for name, quantity := range map[string]*resource.Quantity{"min": valid.Min, "max": valid.Max, "step": valid.Step} {
			if quantity != nil {
				limits[name] = heddleText(quantity)
			}
		}
		policy["validRange"] = limits
	}
	object["requestPolicy"] = policy
	return object
}

func heddleConsume(requests *resourceapi.CapacityRequirements, capacity map[resourceapi.QualifiedName]resourceapi.DeviceCapacity, fractional bool) (heddleAnswer, error) {
	capacities, asked := map[string]any{}, map[string]string{}
	for name, one := range capacity {
		capacities[string(name)] = heddleCapacity(one)
	}
	if requests != nil {
		for name, quantity := range requests.Requests {
			asked[string(name)] = heddleText(&quantity)
		}
	}
	return heddleAsk(map[string]any{"op": "consume", "capacity": capacities, "requests": asked, "fractional": fractional})
}

func heddleGetConsumedCapacityFromRequest(requests *resourceapi.CapacityRequirements, capacity map[resourceapi.QualifiedName]resourceapi.DeviceCapacity,
	fractional bool) (map[resourceapi.QualifiedName]resource.Quantity, error) {
	answer, err := heddleConsume(requests, capacity, fractional)
	if err != nil {
		return nil, err
	}
	consumed := map[resourceapi.QualifiedName]resource.Quantity{}
	for name, text := range answer.Consumed {
		consumed[name] = resource.MustParse(text)
	}
	return consumed, nil
}

func heddleCalculateConsumedCapacity(requested *resource.Quantity, capacity resourceapi.DeviceCapacity, fractional bool) (resource.Quantity, error) {
	requests := &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{}}
	if requested != nil {
		requests.Requests["c"] = *requested
	}
	consumed, err := heddleGetConsumedCapacityFromRequest(requests, map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"c": capacity}, fractional)
	return consumed["c"], err
}

func heddleCmpRequestOverCapacity(_ ConsumedCapacity, requests *resourceapi.CapacityRequirements, _ *bool,
	capacity map[resourceapi.QualifiedName]resourceapi.DeviceCapacity, _ ConsumedCapacity, fractional bool) (bool, error) {
	answer, err := heddleConsume(requests, capacity, fractional)
	return answer.Possible, err
}

func heddleViolation(taken resource.Quantity, policy *resourceapi.CapacityRequestPolicy, fractional bool) heddleAnswer {
	capacity := heddleCapacity(resourceapi.DeviceCapacity{Value: taken, RequestPolicy: policy})
	answer, err := heddleAsk(map[string]any{"op": "violates", "capacity": map[string]any{"c": capacity}, "taken": heddleText(&taken), "fractional": fractional})
	if err != nil {
		panic(err)
	}
	return answer
}

func heddleViolatesPolicy(taken resource.Quantity, policy *resourceapi.CapacityRequestPolicy, fractional bool) bool {
	return heddleViolation(taken, policy, fractional).Violates
}

func heddleUseMilli(validRange *resourceapi.CapacityRequestPolicyRange, fractional bool) bool {
	return string(heddleViolation(one, &resourceapi.CapacityRequestPolicy{ValidRange: validRange}, fractional).Milli) == "true"
}

func heddleSafeMilliValue(quantity resource.Quantity) (int64, error) {
	answer, err := heddleAsk(map[string]any{"op": "quantity", "text": heddleText(&quantity)})
	if err != nil {
		return 0, err
	}
	var milli *int64
	if err := json.Unmarshal(answer.Milli, &milli); err != nil {
		return 0, err
	}
	if milli == nil {
		return 0, errors.New("outside int64")
	}
	return *milli, nil
}
