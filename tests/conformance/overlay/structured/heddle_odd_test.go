package structured

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured/internal"
	"k8s.io/dynamic-resource-allocation/structured/internal/allocatortesting"
)

// What upstream's tables do not have: the same text, decoded as Kubernetes decodes it and given to upstream's allocator, and
// given to `heddle allocate`. Both must end in the same way (devices, "no", or an error) with the same allocation.

type classLister map[string]*resourceapi.DeviceClass

func (c classLister) List() ([]*resourceapi.DeviceClass, error) {
	var all []*resourceapi.DeviceClass
	for _, class := range c {
		all = append(all, class)
	}
	return all, nil
}

func (c classLister) Get(name string) (*resourceapi.DeviceClass, error) {
	if class := c[name]; class != nil {
		return class, nil
	}
	return nil, fmt.Errorf("could not retrieve device class %s", name)
}

// outcome is an exit code of `heddle allocate`, with what was allocated.
type outcome struct {
	code        int
	allocations []resourceapi.AllocationResult
	text        string
}

// comparable is what remains of the allocations when they are written and read again, with equal share ids.
func comparable(allocations []resourceapi.AllocationResult) []resourceapi.AllocationResult {
	text, err := json.Marshal(allocations)
	if err != nil {
		panic(err)
	}
	allocations = nil
	if err := json.Unmarshal(text, &allocations); err != nil {
		panic(err)
	}
	for i := range allocations {
		for j := range allocations[i].Devices.Results {
			result := &allocations[i].Devices.Results[j]
			if result.ShareID != nil {
				*result.ShareID = "share"
			}
			result.ConsumedCapacity = allocatortesting.Normalized(result.ConsumedCapacity)
			if len(result.BindingConditions) == 0 {
				result.BindingConditions = nil
			}
			if len(result.BindingFailureConditions) == 0 {
				result.BindingFailureConditions = nil
			}
		}
	}
	return allocations
}

// Where upstream's allocator panics, an error is wanted.
func upstreamOutcome(features internal.Features, objects []string) (result outcome) {
	defer func() {
		if panicked := recover(); panicked != nil {
			result = outcome{code: 3, text: fmt.Sprint(panicked)}
		}
	}()
	failed := func(err error) outcome { return outcome{code: 3, text: err.Error()} }
	var node v1.Node
	classes := classLister{}
	var slices []*resourceapi.ResourceSlice
	var claims []*resourceapi.ResourceClaim
	state := internal.AllocatedState{
		AllocatedDevices:         sets.New[internal.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[internal.SharedDeviceID](),
		AggregatedCapacity:       internal.NewConsumedCapacityCollection(),
	}
	for _, text := range objects {
		var kind struct{ Kind string }
		if err := json.Unmarshal([]byte(text), &kind); err != nil {
			return failed(err)
		}
		var err error
		switch kind.Kind {
		case "Node":
			err = json.Unmarshal([]byte(text), &node)
		case "DeviceClass":
			var class resourceapi.DeviceClass
			err = json.Unmarshal([]byte(text), &class)
			classes[class.Name] = &class
		case "ResourceSlice":
			var slice resourceapi.ResourceSlice
			err = json.Unmarshal([]byte(text), &slice)
			slices = append(slices, &slice)
		case "ResourceClaim":
			var claim resourceapi.ResourceClaim
			err = json.Unmarshal([]byte(text), &claim)
			if claim.Status.Allocation == nil {
				claims = append(claims, &claim)
				break
			}
			for _, result := range claim.Status.Allocation.Devices.Results {
				id := internal.MakeDeviceID(result.Driver, result.Pool, result.Device)
				if result.AdminAccess != nil && *result.AdminAccess {
					continue
				}
				if result.ShareID == nil || !features.ConsumableCapacity {
					state.AllocatedDevices.Insert(id)
					continue
				}
				state.AllocatedSharedDeviceIDs.Insert(internal.MakeSharedDeviceID(id, result.ShareID))
				state.AggregatedCapacity.Insert(internal.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
			}
		}
		if err != nil {
			return failed(err)
		}
	}
	cache := cel.NewCache(10, cel.Features{EnableConsumableCapacity: features.ConsumableCapacity, EnableListTypeAttributes: features.ListTypeAttributes})
	allocator, err := NewAllocator(context.Background(), features, state, classes, slices, cache)
	if err != nil {
		return failed(err)
	}
	results, err := allocator.Allocate(context.Background(), &node, claims)
	switch {
	case errors.Is(err, internal.ErrFailedAllocationOnNode):
		return outcome{code: 2, text: err.Error()}
	case err != nil:
		return failed(err)
	case results == nil && len(claims) > 0:
		return outcome{code: 2}
	}
	return outcome{code: 0, allocations: comparable(results)}
}

func heddleOutcome(features internal.Features, objects []string) outcome {
	input := `{"apiVersion":"v1","kind":"List","items":[` + strings.Join(objects, ",") + `]}`
	command := exec.Command(os.Getenv("HEDDLE_BINARY"), "allocate", "--without-defaults", "-f", "-", "--node", "n", "--feature-gates="+gates(features), "-o", "json")
	var stdout, stderr bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &stdout, &stderr
	_ = command.Run()
	result := outcome{code: command.ProcessState.ExitCode(), text: strings.TrimSpace(stderr.String())}
	if result.code != 0 {
		if stdout.Len() != 0 || strings.Contains(result.text, "\n") || result.text == "" {
			result.text = fmt.Sprintf("not one line on stderr alone: %q, %q", stdout.String(), stderr.String())
			result.code = -1
		}
		return result
	}
	var list struct{ Items []resourceapi.ResourceClaim }
	if err := json.Unmarshal(stdout.Bytes(), &list); err != nil {
		return outcome{code: -1, text: err.Error()}
	}
	for _, item := range list.Items {
		result.allocations = append(result.allocations, *item.Status.Allocation)
	}
	result.allocations = comparable(result.allocations)
	return result
}

const (
	oddNode  = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}`
	oddClass = `{"apiVersion":"resource.k8s.io/v1","kind":"DeviceClass","metadata":{"name":"c"},"spec":{}}`
)

func oddSlice(devices string) string {
	return `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice","metadata":{"name":"s"},"spec":{"driver":"d","nodeName":"n",` +
		`"pool":{"name":"p","generation":1,"resourceSliceCount":1},"devices":[` + devices + `]}}`
}

func oddClaim(exactly string) string {
	return `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"x","namespace":"y"},"spec":{"devices":{"requests":[` +
		`{"name":"r","exactly":{"deviceClassName":"c","allocationMode":"ExactCount","count":1` + exactly + `}}]}}}`
}

func oddTaken(result string) string {
	return `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"t","namespace":"y"},"status":{"allocation":{"devices":` +
		`{"results":[{"request":"r","driver":"d","pool":"p","device":"a"` + result + `}]}}}}`
}

// Where a quantity can stand.
var oddPlaces = map[string][]string{
	"capacity of a device":        {oddSlice(`{"name":"a","capacity":{"m":{"value":QUANTITY}}}`), oddClaim("")},
	"capacity of a shared device": {oddSlice(`{"name":"a","allowMultipleAllocations":true,"capacity":{"m":{"value":QUANTITY}}}`), oddClaim("")},
	"request":                     {oddSlice(`{"name":"a","capacity":{"m":{"value":"4Gi"}}}`), oddClaim(`,"capacity":{"requests":{"m":QUANTITY}}`)},
	"request of a share": {oddSlice(`{"name":"a","allowMultipleAllocations":true,"capacity":{"m":{"value":"4Gi"}}}`),
		oddClaim(`,"capacity":{"requests":{"m":QUANTITY}}`)},
	"default": {oddSlice(`{"name":"a","allowMultipleAllocations":true,"capacity":{"m":{"value":"4Gi","requestPolicy":{"default":QUANTITY}}}}`), oddClaim("")},
	"valid value": {oddSlice(`{"name":"a","allowMultipleAllocations":true,"capacity":{"m":{"value":"4Gi","requestPolicy":{"default":"1","validValues":["1",QUANTITY]}}}}`),
		oddClaim(`,"capacity":{"requests":{"m":"2"}}`)},
	"minimum": {oddSlice(`{"name":"a","allowMultipleAllocations":true,"capacity":{"m":{"value":"4Gi","requestPolicy":{"default":"1","validRange":{"min":QUANTITY}}}}}`),
		oddClaim(`,"capacity":{"requests":{"m":"2"}}`)},
	"maximum": {oddSlice(`{"name":"a","allowMultipleAllocations":true,"capacity":{"m":{"value":"4Gi","requestPolicy":{"default":"1","validRange":{"min":"0","max":QUANTITY}}}}}`),
		oddClaim(`,"capacity":{"requests":{"m":"2"}}`)},
	"step": {oddSlice(`{"name":"a","allowMultipleAllocations":true,"capacity":{"m":{"value":"4Gi","requestPolicy":{"default":"1","validRange":{"min":"1","step":QUANTITY}}}}}`),
		oddClaim(`,"capacity":{"requests":{"m":"2"}}`)},
	"step and fraction": {oddSlice(`{"name":"a","allowMultipleAllocations":true,"capacity":{"m":{"value":"4","requestPolicy":{"default":"1","validRange":{"min":"500m","step":QUANTITY}}}}}`),
		oddClaim(`,"capacity":{"requests":{"m":"1.2"}}`)},
	"consumed": {oddSlice(`{"name":"a","allowMultipleAllocations":true,"capacity":{"m":{"value":"4Gi"}}}`),
		oddTaken(`,"shareID":"f3b5d7a2-0000-4000-8000-000000000000","consumedCapacity":{"m":QUANTITY}`), oddClaim(`,"capacity":{"requests":{"m":"1Gi"}}`)},
	"counter used": {`{"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice","metadata":{"name":"s0"},"spec":{"driver":"d","nodeName":"n",` +
		`"pool":{"name":"p","generation":1,"resourceSliceCount":2},"sharedCounters":[{"name":"k","counters":{"m":{"value":"4Gi"}}}]}}`,
		strings.Replace(oddSlice(`{"name":"a","consumesCounters":[{"counterSet":"k","counters":{"m":{"value":QUANTITY}}}]}`), `Count":1`, `Count":2`, 1), oddClaim("")},
	"counter": {`{"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice","metadata":{"name":"s0"},"spec":{"driver":"d","nodeName":"n",` +
		`"pool":{"name":"p","generation":1,"resourceSliceCount":2},"sharedCounters":[{"name":"k","counters":{"m":{"value":QUANTITY}}}]}}`,
		strings.Replace(oddSlice(`{"name":"a","consumesCounters":[{"counterSet":"k","counters":{"m":{"value":"1"}}}]}`), `Count":1`, `Count":2`, 1), oddClaim("")},
	"selector": {oddSlice(`{"name":"a","capacity":{"m":{"value":QUANTITY}}}`),
		oddClaim(`,"selectors":[{"cel":{"expression":"device.capacity['d'].m.compareTo(quantity('1Ki')) >= 0"}}]`)},
}

var oddQuantities = []string{
	`"1"`, `1`, `1.5`, `-1`, `"-1"`, `"0"`, `0`, `"-0"`, `"+1"`, `" 1"`, `"1 "`, `""`, `null`, `"."`, `".5"`, `"5."`, `"1.50"`, `"1Ki"`, `"1ki"`, `"1K"`, `"1k"`,
	`"1Mi"`, `"1M"`, `"1m"`, `"1500m"`, `"1u"`, `"1n"`, `"0.1n"`, `"1e3"`, `"1E3"`, `1e3`, `1E3`, `"1e-3"`, `"1E"`, `"1Ei"`, `"7Ei"`, `"8Ei"`, `"9E"`, `"10E"`,
	`9223372036854775807`, `9223372036854775808`, `"9223372036854775807"`, `"9223372036854775808"`, `"-9223372036854775808"`, `"1e18"`, `"1e19"`,
	`"0x10"`, `"1_000"`, `"1,5"`, `"NaN"`, `"Inf"`, `true`, `{}`, `[]`, `"1Gi1"`, `"1 Gi"`, `"00012"`, `"1.0000000001"`, `"0.0005"`, `"4294967296"`, `"4Gi"`, `"4.1Gi"`,
	`"4194304Ki"`, `"1e"`, `"e3"`, `"1e+3"`, `"1ee3"`, `"1i"`, `"Gi"`, `"-1Gi"`, `"1Pi"`, `"1Ti"`, `"1.5Gi"`, `"0.5"`, `"1.2"`, `"1.7"`,
}

// Those that a rule of one place could take for something else; the others differ in how they are read, which is the same
// everywhere.
var telling = []string{`"1"`, `"-1"`, `"0"`, `""`, `null`, `"2"`, `"0.5"`, `"1.2"`, `"0.0005"`, `"1m"`, `"1n"`, `"3Gi"`, `"4Gi"`, `"4.1Gi"`, `"8Ei"`, `"1e19"`, `true`}

var oddFeatures = internal.Features{AdminAccess: true, PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true,
	DeviceBindingAndStatus: true, ConsumableCapacity: true, FractionalCapacityRange: true}

func TestHeddleOddQuantities(t *testing.T) {
	features := oddFeatures
	for place, objects := range oddPlaces {
		quantities := telling
		if place == "request of a share" || place == "consumed" || place == "counter used" {
			quantities = append(quantities, oddQuantities...)
		}
		for _, fractional := range []bool{true, false} {
			if !fractional && !strings.Contains(objects[0], "requestPolicy") {
				continue
			}
			features.FractionalCapacityRange = fractional
			t.Run(fmt.Sprintf("%s, fractional=%v", place, fractional), func(t *testing.T) {
				for _, quantity := range quantities {
					texts := []string{oddNode, oddClass}
					for _, object := range objects {
						texts = append(texts, strings.ReplaceAll(object, "QUANTITY", quantity))
					}
					compareOutcomes(t, quantity, features, texts)
				}
			})
		}
	}
}

func slice(name, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice","metadata":{"name":%q},"spec":{"driver":"d",%s}}`, name, spec)
}

func claim(name, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":%q,"namespace":"y"},"spec":%s}`, name, spec)
}

func request(exactly string) string {
	return `{"devices":{"requests":[{"name":"r","exactly":{` + exactly + `}}]}}`
}

func one(rest string) string {
	return `{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"c","allocationMode":"ExactCount","count":1}}]` + rest + `}}`
}

const onePool = `"pool":{"name":"p","generation":1,"resourceSliceCount":1}`

// Claims over two plain devices.
var oddClaims = map[string]string{
	"no spec":                      `{}`,
	"null":                         `null`,
	"no devices":                   `{"devices":{}}`,
	"null requests":                `{"devices":{"requests":null}}`,
	"no requests":                  `{"devices":{"requests":[]}}`,
	"neither form":                 `{"devices":{"requests":[{"name":"r"}]}}`,
	"null form":                    `{"devices":{"requests":[{"name":"r","exactly":null}]}}`,
	"empty form":                   `{"devices":{"requests":[{"name":"r","exactly":{}}]}}`,
	"no alternatives":              `{"devices":{"requests":[{"name":"r","firstAvailable":[]}]}}`,
	"one alternative":              `{"devices":{"requests":[{"name":"r","firstAvailable":[{"name":"s","deviceClassName":"c","allocationMode":"ExactCount","count":1}]}]}}`,
	"the second alternative":       `{"devices":{"requests":[{"name":"r","firstAvailable":[{"name":"s","deviceClassName":"c","allocationMode":"ExactCount","count":3},{"name":"t","deviceClassName":"c","allocationMode":"All"}]}]}}`,
	"an alternative without class": `{"devices":{"requests":[{"name":"r","firstAvailable":[{"name":"s","allocationMode":"ExactCount","count":1}]}]}}`,
	"no request name":              `{"devices":{"requests":[{"exactly":{"deviceClassName":"c","allocationMode":"ExactCount","count":1}}]}}`,
	"equal request names":          `{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"c","allocationMode":"ExactCount","count":1}},{"name":"r","exactly":{"deviceClassName":"c","allocationMode":"ExactCount","count":1}}]}}`,
	"no class":                     request(`"allocationMode":"ExactCount","count":1`),
	"unknown class":                request(`"deviceClassName":"zz","allocationMode":"ExactCount","count":1`),
	"no mode":                      request(`"deviceClassName":"c","count":1`),
	"empty mode":                   request(`"deviceClassName":"c","allocationMode":"","count":1`),
	"mode all":                     request(`"deviceClassName":"c","allocationMode":"all"`),
	"mode All":                     request(`"deviceClassName":"c","allocationMode":"All"`),
	"All with a count":             request(`"deviceClassName":"c","allocationMode":"All","count":1`),
	"no count":                     request(`"deviceClassName":"c","allocationMode":"ExactCount"`),
	"count 0":                      request(`"deviceClassName":"c","allocationMode":"ExactCount","count":0`),
	"count null":                   request(`"deviceClassName":"c","allocationMode":"ExactCount","count":null`),
	"count -1":                     request(`"deviceClassName":"c","allocationMode":"ExactCount","count":-1`),
	"count 2":                      request(`"deviceClassName":"c","allocationMode":"ExactCount","count":2`),
	"count 3":                      request(`"deviceClassName":"c","allocationMode":"ExactCount","count":3`),
	"count 32":                     request(`"deviceClassName":"c","allocationMode":"ExactCount","count":32`),
	"count 33":                     request(`"deviceClassName":"c","allocationMode":"ExactCount","count":33`),
	"count 2^63-1":                 request(`"deviceClassName":"c","allocationMode":"ExactCount","count":9223372036854775807`),
	"count 2^63":                   request(`"deviceClassName":"c","allocationMode":"ExactCount","count":9223372036854775808`),
	"count 1.0":                    request(`"deviceClassName":"c","allocationMode":"ExactCount","count":1.0`),
	"count 1e0":                    request(`"deviceClassName":"c","allocationMode":"ExactCount","count":1e0`),
	"count text":                   request(`"deviceClassName":"c","allocationMode":"ExactCount","count":"1"`),
	"null selectors":               request(`"deviceClassName":"c","allocationMode":"ExactCount","count":1,"selectors":null`),
	"a selector of no kind":        request(`"deviceClassName":"c","allocationMode":"ExactCount","count":1,"selectors":[{}]`),
	"a selector that is null":      request(`"deviceClassName":"c","allocationMode":"ExactCount","count":1,"selectors":[null]`),
	"an empty selector":            request(`"deviceClassName":"c","allocationMode":"ExactCount","count":1,"selectors":[{"cel":{"expression":""}}]`),
	"a selector in pieces":         request(`"deviceClassName":"c","allocationMode":"ExactCount","count":1,"selectors":[{"cel":{"expression":"device.driver ==\n 'd'"}}]`),
	"an int selector":              request(`"deviceClassName":"c","allocationMode":"ExactCount","count":1,"selectors":[{"cel":{"expression":"1"}}]`),
	"a bad pattern":                request(`"deviceClassName":"c","allocationMode":"ExactCount","count":1,"selectors":[{"cel":{"expression":"true || device.driver.find('[') == ''"}}]`),
	"a long selector":              request(`"deviceClassName":"c","allocationMode":"ExactCount","count":1,"selectors":[{"cel":{"expression":"device.driver != '` + strings.Repeat("x", 20000) + `'"}}]`),
	"a missing attribute":          request(`"deviceClassName":"c","allocationMode":"ExactCount","count":1,"selectors":[{"cel":{"expression":"device.attributes['d'].nope == 1"}}]`),
	"an unknown domain":            request(`"deviceClassName":"c","allocationMode":"ExactCount","count":1,"selectors":[{"cel":{"expression":"size(device.attributes['zz']) == 0"}}]`),
	"admin access":                 request(`"deviceClassName":"c","allocationMode":"ExactCount","count":1,"adminAccess":true`),
	"no admin access":              request(`"deviceClassName":"c","allocationMode":"ExactCount","count":1,"adminAccess":false`),
	"admin access to all":          request(`"deviceClassName":"c","allocationMode":"All","adminAccess":true`),
	"unknown capacity":             request(`"deviceClassName":"c","allocationMode":"ExactCount","count":1,"capacity":{"requests":{"zz":"1"}}`),
	"capacity with its domain":     request(`"deviceClassName":"c","allocationMode":"ExactCount","count":1,"capacity":{"requests":{"d/zz":"1"}}`),
	"no capacity requests":         request(`"deviceClassName":"c","allocationMode":"ExactCount","count":1,"capacity":{}`),
	"a toleration without a key":   request(`"deviceClassName":"c","allocationMode":"ExactCount","count":1,"tolerations":[{"operator":"Exists"}]`),
	"tolerations":                  request(`"deviceClassName":"c","allocationMode":"ExactCount","count":1,"tolerations":[{"key":"a","value":"b","effect":"NoExecute","tolerationSeconds":5},{"key":"k","operator":"Odd"}]`),
	"unknown fields":               `{"zz":1,"devices":{"zz":{},"requests":[{"name":"r","zz":[],"exactly":{"zz":null,"deviceClassName":"c","allocationMode":"ExactCount","count":1}}]}}`,
	"an empty constraint":          one(`,"constraints":[{}]`),
	"a null constraint":            one(`,"constraints":[null]`),
	"match what is not there":      one(`,"constraints":[{"matchAttribute":"d/nope"}]`),
	"match":                        one(`,"constraints":[{"matchAttribute":"d/i"}]`),
	"match without a domain":       one(`,"constraints":[{"matchAttribute":"i"}]`),
	"a constraint on others":       one(`,"constraints":[{"requests":["zz"],"matchAttribute":"d/nope"}]`),
	"config":                       one(`,"config":[{"opaque":{"driver":"d","parameters":{"a":[1,2.5,{"b":null}]}}}]`),
	"config of the request":        one(`,"config":[{"requests":["r"],"opaque":{"driver":"d","parameters":{}}}]`),
	"config of others":             one(`,"config":[{"requests":["zz"],"opaque":{"driver":"d","parameters":{}}}]`),
	"config without parameters":    one(`,"config":[{"opaque":{"driver":"d"}}]`),
	"config of no kind":            one(`,"config":[{}]`),
	"null config":                  one(`,"config":null`),
}

// Slices of which the claim takes one device.
var oddSlices = map[string][]string{
	"none":                                  {},
	"no devices":                            {slice("s", onePool+`,"nodeName":"n"`)},
	"null devices":                          {slice("s", onePool+`,"nodeName":"n","devices":null`)},
	"another node":                          {slice("s", onePool+`,"nodeName":"m","devices":[{"name":"a"}]`)},
	"no scope":                              {slice("s", onePool+`,"devices":[{"name":"a"}]`)},
	"an empty node name":                    {slice("s", onePool+`,"nodeName":"","devices":[{"name":"a"}]`)},
	"all nodes":                             {slice("s", onePool+`,"allNodes":true,"devices":[{"name":"a"}]`)},
	"not all nodes":                         {slice("s", onePool+`,"allNodes":false,"devices":[{"name":"a"}]`)},
	"an empty selector":                     {slice("s", onePool+`,"nodeSelector":{},"devices":[{"name":"a"}]`)},
	"no terms":                              {slice("s", onePool+`,"nodeSelector":{"nodeSelectorTerms":[]},"devices":[{"name":"a"}]`)},
	"an empty term":                         {slice("s", onePool+`,"nodeSelector":{"nodeSelectorTerms":[{}]},"devices":[{"name":"a"}]`)},
	"two terms":                             {slice("s", onePool+`,"nodeSelector":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]},{"matchFields":[{"key":"metadata.name","operator":"In","values":["m"]}]}]},"devices":[{"name":"a"}]`)},
	"a field":                               {slice("s", onePool+`,"nodeSelector":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}]},"devices":[{"name":"a"}]`)},
	"a label":                               {slice("s", onePool+`,"nodeSelector":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"In","values":["z","w"]}]}]},"devices":[{"name":"a"}]`)},
	"a label that is larger":                {slice("s", onePool+`,"nodeSelector":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"count","operator":"Gt","values":["3"]}]}]},"devices":[{"name":"a"}]`)},
	"no such label":                         {slice("s", onePool+`,"nodeSelector":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"nope","operator":"DoesNotExist"}]}]},"devices":[{"name":"a"}]`)},
	"an unknown operator":                   {slice("s", onePool+`,"nodeSelector":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"Odd","values":["z"]}]}]},"devices":[{"name":"a"}]`)},
	"In without values":                     {slice("s", onePool+`,"nodeSelector":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"In"}]}]},"devices":[{"name":"a"}]`)},
	"Gt of a word":                          {slice("s", onePool+`,"nodeSelector":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"count","operator":"Gt","values":["x"]}]}]},"devices":[{"name":"a"}]`)},
	"no pool":                               {slice("s", `"nodeName":"n","devices":[{"name":"a"}]`)},
	"no count":                              {slice("s", `"pool":{"name":"p","generation":1},"nodeName":"n","devices":[{"name":"a"}]`)},
	"count 0":                               {slice("s", `"pool":{"name":"p","generation":1,"resourceSliceCount":0},"nodeName":"n","devices":[{"name":"a"}]`)},
	"count 2":                               {slice("s", `"pool":{"name":"p","generation":1,"resourceSliceCount":2},"nodeName":"n","devices":[{"name":"a"}]`)},
	"no generation":                         {slice("s", `"pool":{"name":"p","resourceSliceCount":1},"nodeName":"n","devices":[{"name":"a"}]`)},
	"a negative generation":                 {slice("s", `"pool":{"name":"p","generation":-1,"resourceSliceCount":1},"nodeName":"n","devices":[{"name":"a"}]`)},
	"the largest generation":                {slice("s", `"pool":{"name":"p","generation":9223372036854775807,"resourceSliceCount":1},"nodeName":"n","devices":[{"name":"a"}]`), slice("t", onePool+`,"nodeName":"n","devices":[{"name":"b"}]`)},
	"a fraction":                            {slice("s", `"pool":{"name":"p","generation":1.5,"resourceSliceCount":1},"nodeName":"n","devices":[{"name":"a"}]`)},
	"equal devices":                         {slice("s", onePool+`,"nodeName":"n","devices":[{"name":"a"},{"name":"a"}]`)},
	"equal slices":                          {slice("s", onePool+`,"nodeName":"n","devices":[{"name":"a"}]`), slice("s", onePool+`,"nodeName":"n","devices":[{"name":"a"}]`)},
	"an equal device name in another slice": {slice("s", strings.Replace(onePool, `t":1`, `t":2`, 1)+`,"nodeName":"n","devices":[{"name":"a"}]`), slice("t", strings.Replace(onePool, `t":1`, `t":2`, 1)+`,"nodeName":"n","devices":[{"name":"a"}]`)},
	"an invalid pool beside a good one":     {slice("s", onePool+`,"nodeName":"n","devices":[{"name":"a"},{"name":"a"}]`), slice("t", strings.Replace(onePool, `"p"`, `"q"`, 1)+`,"nodeName":"n","devices":[{"name":"b"}]`)},
	"slices by name":                        {slice("t", strings.Replace(onePool, `t":1`, `t":2`, 1)+`,"nodeName":"n","devices":[{"name":"a"}]`), slice("s", strings.Replace(onePool, `t":1`, `t":2`, 1)+`,"nodeName":"n","devices":[{"name":"b"}]`)},
	"pools by name":                         {slice("s", strings.Replace(onePool, `"p"`, `"q"`, 1)+`,"nodeName":"n","devices":[{"name":"a"}]`), slice("t", onePool+`,"nodeName":"n","devices":[{"name":"b"}]`)},
	"no device name":                        {slice("s", onePool+`,"nodeName":"n","devices":[{}]`)},
	"a null device":                         {slice("s", onePool+`,"nodeName":"n","devices":[null]`)},
	"an attribute without a value":          {slice("s", onePool+`,"nodeName":"n","devices":[{"name":"a","attributes":{"i":{}}}]`)},
	"two values":                            {slice("s", onePool+`,"nodeName":"n","devices":[{"name":"a","attributes":{"i":{"int":1,"string":"x"}}}]`)},
	"a bad version":                         {slice("s", onePool+`,"nodeName":"n","devices":[{"name":"a","attributes":{"i":{"version":"1.x"}}}]`)},
	"a list without the gate":               {slice("s", onePool+`,"nodeName":"n","devices":[{"name":"a","attributes":{"i":{"ints":[1,2]}}}]`)},
	"an int out of range":                   {slice("s", onePool+`,"nodeName":"n","devices":[{"name":"a","attributes":{"i":{"int":9223372036854775808}}}]`)},
	"a capacity without a value":            {slice("s", onePool+`,"nodeName":"n","devices":[{"name":"a","allowMultipleAllocations":true,"capacity":{"m":{}}}]`)},
	"an empty policy":                       {slice("s", onePool+`,"nodeName":"n","devices":[{"name":"a","allowMultipleAllocations":true,"capacity":{"m":{"value":"1Gi","requestPolicy":{}}}}]`)},
	"a range without a minimum":             {slice("s", onePool+`,"nodeName":"n","devices":[{"name":"a","allowMultipleAllocations":true,"capacity":{"m":{"value":"1Gi","requestPolicy":{"default":"1","validRange":{"max":"2"}}}}}]`)},
	"no valid values":                       {slice("s", onePool+`,"nodeName":"n","devices":[{"name":"a","allowMultipleAllocations":true,"capacity":{"m":{"value":"1Gi","requestPolicy":{"default":"1","validValues":[]}}}}]`)},
	"a policy without a default":            {slice("s", onePool+`,"nodeName":"n","devices":[{"name":"a","allowMultipleAllocations":true,"capacity":{"m":{"value":"1Gi","requestPolicy":{"validValues":["1","2"]}}}}]`)},
	"a taint":                               {slice("s", onePool+`,"nodeName":"n","devices":[{"name":"a","taints":[{"key":"k","effect":"NoSchedule"}]},{"name":"b"}]`)},
	"a taint of no effect":                  {slice("s", onePool+`,"nodeName":"n","devices":[{"name":"a","taints":[{"key":"k","effect":"None"}]}]`)},
	"a taint of an odd effect":              {slice("s", onePool+`,"nodeName":"n","devices":[{"name":"a","taints":[{"key":"k","effect":"Odd"}]}]`)},
	"an unknown counter set":                {slice("s", onePool+`,"nodeName":"n","devices":[{"name":"a","consumesCounters":[{"counterSet":"k","counters":{"m":{"value":"1"}}}]}]`)},
	"binding conditions":                    {slice("s", onePool+`,"nodeName":"n","devices":[{"name":"a","bindsToNode":true,"bindingConditions":["x"],"bindingFailureConditions":["y"]}]`)},
	"per device, no scope":                  {slice("s", onePool+`,"perDeviceNodeSelection":true,"devices":[{"name":"a"}]`)},
	"per device":                            {slice("s", onePool+`,"perDeviceNodeSelection":true,"devices":[{"name":"a","nodeName":"m"},{"name":"b","nodeName":"n"},{"name":"c","allNodes":true}]`)},
	"unknown fields":                        {slice("s", onePool+`,"zz":1,"nodeName":"n","devices":[{"name":"a","zz":{"y":[]}}]`)},
	"no slice names":                        {slice("", strings.Replace(onePool, `t":1`, `t":2`, 1)+`,"nodeName":"n","devices":[{"name":"a"}]`), slice("", strings.Replace(onePool, `t":1`, `t":2`, 1)+`,"nodeName":"n","devices":[{"name":"b"}]`)},
	"old slices elsewhere":                  {slice("s", onePool+`,"nodeName":"n","devices":[{"name":"a"}]`), slice("t", strings.Replace(onePool, `n":1`, `n":2`, 1)+`,"nodeName":"m","devices":[{"name":"b"}]`)},
}

// Claims that hold something, before one that wants one of two shared devices.
var oddTakens = map[string]string{
	"whole":                  `{"results":[{"request":"r","driver":"d","pool":"p","device":"a"}]}`,
	"a share":                `{"results":[{"request":"r","driver":"d","pool":"p","device":"a","shareID":"f3b5d7a2-0000-4000-8000-000000000000","consumedCapacity":{"m":"4Gi"}}]}`,
	"a share of nothing":     `{"results":[{"request":"r","driver":"d","pool":"p","device":"a","shareID":"f3b5d7a2-0000-4000-8000-000000000000"}]}`,
	"an unknown capacity":    `{"results":[{"request":"r","driver":"d","pool":"p","device":"a","shareID":"f3b5d7a2-0000-4000-8000-000000000000","consumedCapacity":{"zz":"4Gi"}}]}`,
	"more than there is":     `{"results":[{"request":"r","driver":"d","pool":"p","device":"a","shareID":"f3b5d7a2-0000-4000-8000-000000000000","consumedCapacity":{"m":"5Gi"}}]}`,
	"less than nothing":      `{"results":[{"request":"r","driver":"d","pool":"p","device":"a","shareID":"f3b5d7a2-0000-4000-8000-000000000000","consumedCapacity":{"m":"-5Gi"}}]}`,
	"as an administrator":    `{"results":[{"request":"r","driver":"d","pool":"p","device":"a","adminAccess":true}]}`,
	"not an administrator":   `{"results":[{"request":"r","driver":"d","pool":"p","device":"a","adminAccess":false}]}`,
	"both":                   `{"results":[{"request":"r","driver":"d","pool":"p","device":"a"},{"request":"r","driver":"d","pool":"p","device":"b"}]}`,
	"the same twice":         `{"results":[{"request":"r","driver":"d","pool":"p","device":"a"},{"request":"r","driver":"d","pool":"p","device":"a"}]}`,
	"what is not there":      `{"results":[{"request":"r","driver":"d","pool":"zz","device":"a"}]}`,
	"nothing":                `{"results":[]}`,
	"nothing at all":         `{}`,
	"no names":               `{"results":[{}]}`,
	"shares by equal ids":    `{"results":[{"request":"r","driver":"d","pool":"p","device":"a","shareID":"f3b5d7a2-0000-4000-8000-000000000000","consumedCapacity":{"m":"2Gi"}},{"request":"r","driver":"d","pool":"p","device":"a","shareID":"f3b5d7a2-0000-4000-8000-000000000000","consumedCapacity":{"m":"2Gi"}}]}`,
	"whole and in parts too": `{"results":[{"request":"r","driver":"d","pool":"p","device":"a"},{"request":"r","driver":"d","pool":"p","device":"a","shareID":"f3b5d7a2-0000-4000-8000-000000000000","consumedCapacity":{"m":"1Gi"}}]}`,
}

func TestHeddleOddObjects(t *testing.T) {
	node := `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","labels":{"zone":"z","count":"4"}}}`
	two := slice("s", onePool+`,"nodeName":"n","devices":[{"name":"a","attributes":{"i":{"int":1}}},{"name":"b"}]`)
	shared := slice("s", onePool+`,"nodeName":"n","devices":[{"name":"a","allowMultipleAllocations":true,"capacity":{"m":{"value":"4Gi"}}},`+
		`{"name":"b","allowMultipleAllocations":true,"capacity":{"m":{"value":"4Gi"}}}]`)
	for name, spec := range oddClaims {
		t.Run("claim: "+name, func(t *testing.T) {
			compareOutcomes(t, "claim", oddFeatures, []string{node, oddClass, two, claim("x", spec)})
			compareOutcomes(t, "after another", oddFeatures, []string{node, oddClass, two, claim("v", one("")), claim("x", spec)})
		})
	}
	for name, slices := range oddSlices {
		t.Run("slices: "+name, func(t *testing.T) {
			before := append([]string{node, oddClass}, slices...)
			compareOutcomes(t, "one", oddFeatures, append(before, claim("x", one(""))))
			compareOutcomes(t, "all", oddFeatures, append(before, claim("x", request(`"deviceClassName":"c","allocationMode":"All"`))))
			compareOutcomes(t, "an attribute", oddFeatures, append(before, claim("x", one(`,"constraints":[{"matchAttribute":"d/i"}]`))))
			compareOutcomes(t, "a selector", oddFeatures, append(before, claim("x", request(
				`"deviceClassName":"c","allocationMode":"ExactCount","count":1,"selectors":[{"cel":{"expression":"has(device.attributes['d'].i)"}}]`))))
		})
	}
	for name, taken := range oddTakens {
		t.Run("taken: "+name, func(t *testing.T) {
			holds := `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"t","namespace":"y"},"status":{"allocation":{"devices":` + taken + `}}}`
			for _, consumable := range []bool{true, false} {
				features := oddFeatures
				features.ConsumableCapacity = consumable
				// A share of a device that is not shared any more: upstream gives the device to someone else as well.
				if !consumable || !strings.Contains(taken, "shareID") || strings.Contains(taken, `"device":"a"},`) {
					compareOutcomes(t, fmt.Sprintf("exclusive, consumable=%v", consumable), features, []string{node, oddClass, two, holds, claim("x", one(""))})
				}
				compareOutcomes(t, fmt.Sprintf("shared, consumable=%v", consumable), features, []string{node, oddClass, shared, holds, claim("x", one(""))})
			}
		})
	}
}

// Where the two differ on purpose.
func TestHeddleOddOnPurpose(t *testing.T) {
	devices := `,"nodeName":"n","devices":[{"name":"a"}]`
	three := strings.Replace(onePool, `t":1`, `t":3`, 1)
	cases := map[string]struct {
		upstream, heddle int
		objects          []string
	}{
		"slices that disagree about their number are incomplete": {0, 2, []string{
			slice("s", strings.Replace(onePool, `t":1`, `t":2`, 1)+devices),
			slice("t", three+strings.Replace(devices, `"a"`, `"b"`, 1)), claim("x", one(""))}},
		"a scope that contradicts itself is refused": {0, 3, []string{slice("s", onePool+`,"allNodes":true`+devices), claim("x", one(""))}},
		"a constraint of both kinds is refused":      {2, 3, []string{slice("s", onePool+devices), claim("x", one(`,"constraints":[{"matchAttribute":"d/i","distinctAttribute":"d/i"}]`))}},
		"a constraint on no name is refused":         {2, 3, []string{slice("s", onePool+devices), claim("x", one(`,"constraints":[{"matchAttribute":""}]`))}},
		"a quantity beyond 10^28 is refused": {0, 3, []string{
			slice("s", onePool+`,"nodeName":"n","devices":[{"name":"a","capacity":{"m":{"value":"1e29"}}}]`), claim("x", one(""))}},
		"a share holds a device that is not shared any more": {0, 2, []string{
			slice("s", onePool+devices), oddTaken(`,"shareID":"f3b5d7a2-0000-4000-8000-000000000000"`), claim("x", one(""))}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			objects := append([]string{oddNode, oddClass}, c.objects...)
			want, got := upstreamOutcome(oddFeatures, objects), heddleOutcome(oddFeatures, objects)
			if want.code != c.upstream || got.code != c.heddle {
				t.Errorf("upstream %d (%s), heddle %d (%s)", want.code, want.text, got.code, got.text)
			}
		})
	}
}

func compareOutcomes(t *testing.T, name string, features internal.Features, objects []string) {
	want, got := upstreamOutcome(features, objects), heddleOutcome(features, objects)
	if want.code != got.code {
		t.Errorf("%s: upstream %d (%s), heddle %d (%s)", name, want.code, want.text, got.code, got.text)
		return
	}
	if diff := cmp.Diff(want.allocations, got.allocations); diff != "" {
		t.Errorf("%s: upstream -, heddle +:\n%s", name, diff)
	}
}
