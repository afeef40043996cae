package search_test

import (
	"fmt"

	"github.com/toolroute/toolroute/pkg/tool/search"
)

func Example() {
	ix := search.New([]search.Doc{
		{ID: "memo-1", Title: "Travel memo", Body: "Hotels in Paris are paid up to 180 EUR a night."},
		{ID: "memo-2", Title: "Canteen memo", Body: "The canteen in Łódź opens at noon."},
		{ID: "memo-3", Title: "Parking memo", Body: "Bicycles are parked in the yard."},
	}, search.Options{Stem: true})
	fmt.Println(search.Render(ix.Search(`"hotel" policy: paris?`, 2), 2, 6).Text)
	// Output:
	// [1] Travel memo: Hotels in Paris are paid up… (score 0.91)
}
