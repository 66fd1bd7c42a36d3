package allocatortesting

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Normalized gives quantities one inner form for each value: the tables compare structs, and a command line can only tell
// values.
func Normalized(quantities map[resourceapi.QualifiedName]resource.Quantity) map[resourceapi.QualifiedName]resource.Quantity {
	if quantities == nil {
		return nil
	}
	result := make(map[resourceapi.QualifiedName]resource.Quantity, len(quantities))
	for name, quantity := range quantities {
		quantity = quantity.DeepCopy()
		result[name] = resource.MustParse(quantity.AsDec().String())
	}
	return result
}

// nilIfEmpty is what JSON makes of an empty list.
func nilIfEmpty(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return list
}
