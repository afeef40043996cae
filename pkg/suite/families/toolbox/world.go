package toolbox

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroute/toolroute/pkg/rng"
)

// City is one row of the table of cities.
type City struct {
	Name        string `json:"name"`
	Country     string `json:"country"`
	Temperature int    `json:"temperature"` // degrees Celsius
	Population  int    `json:"population"`  // thousands
	Offset      int    `json:"offset"`      // hours from UTC
	Lat         int    `json:"lat"`         // degrees north
	Lon         int    `json:"lon"`         // degrees east
}

// Stock is a ticker and its price with at most one decimal, such as "84.5".
type Stock struct {
	Ticker string `json:"ticker"`
	Price  string `json:"price"`
}

// Currency is a code in lower case and how many units one usd buys, with at most one decimal.
type Currency struct {
	Code string `json:"code"`
	Rate string `json:"rate"`
}

// Distance is one row of the table that distance_between reads. From sorts before To.
type Distance struct {
	From string `json:"from"`
	To   string `json:"to"`
	Km   int    `json:"km"`
}

// Element is a chemical element.
type Element struct {
	Name   string `json:"name"`
	Symbol string `json:"symbol"`
	Number int    `json:"number"`
}

// Book is a book of this world only.
type Book struct {
	Title  string `json:"title"`
	Author string `json:"author"`
	Year   int    `json:"year"`
}

// tables are what a world's file holds.
type tables struct {
	Seed       uint64     `json:"seed"`
	Cities     []City     `json:"cities"`
	Stocks     []Stock    `json:"stocks"`
	Currencies []Currency `json:"currencies"`
	Distances  []Distance `json:"distances"`
	Elements   []Element  `json:"elements"`
	Books      []Book     `json:"books"`
}

// World is the read-only part of what tools know. It is safe for concurrent use.
type World struct {
	t          tables
	cities     map[string]City
	stocks     map[string]Stock
	currencies map[string]Currency
	distances  map[[2]string]int
	elements   map[string]Element
	books      map[string]Book
}

// NewWorld draws the tables of a seed. The names are the same in every world; temperatures, populations, prices, rates, books and the
// choice of the 100 pairs are drawn, each keyed by its own name.
func NewWorld(seed uint64) *World {
	t := tables{Seed: seed}
	for _, row := range rows(cityRows, ",") {
		c := City{Name: row[0], Country: row[1], Offset: whole(row[2]), Lat: whole(row[3]), Lon: whole(row[4])}
		r := rng.New(seed, "families/city", c.Name)
		c.Temperature = 1 + r.IntN(38)
		c.Population = 50 + r.IntN(9950)
		t.Cities = append(t.Cities, c)
	}
	for _, code := range tickerCodes {
		t.Stocks = append(t.Stocks, Stock{code, tenths(50 + rng.New(seed, "families/stock", code).IntN(9950))})
	}
	for _, row := range rows(currencyRows, " ") {
		c := Currency{row[0], row[1]}
		if about, _ := strconv.ParseFloat(row[1], 64); about != 1 { // usd is what rates are counted in
			scale := 0.8 + 0.4*rng.New(seed, "families/currency", c.Code).Float64()
			c.Rate = tenths(max(1, int(math.Round(about*scale*10))))
		}
		t.Currencies = append(t.Currencies, c)
	}
	// The table holds pairs of a few hubs, so that a policy which learned the hubs knows of a new pair whether the table has it.
	hubs := slices.Clone(t.Cities)
	rng.New(seed, "families/hubs").Shuffle(len(hubs), func(i, j int) { hubs[i], hubs[j] = hubs[j], hubs[i] })
	var pairs []Distance
	for i, a := range hubs[:hubCount] {
		for _, b := range hubs[i+1 : hubCount] {
			from, to := ordered(a.Name, b.Name)
			pairs = append(pairs, Distance{from, to, kilometers(a, b)})
		}
	}
	rng.New(seed, "families/distances").Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
	t.Distances = pairs[:pairCount]
	slices.SortFunc(t.Distances, func(a, b Distance) int {
		return strings.Compare(a.From+"|"+a.To, b.From+"|"+b.To)
	})
	for _, row := range rows(elementRows, " ") {
		t.Elements = append(t.Elements, Element{row[0], row[1], whole(row[2])})
	}
	var titles []string
	for _, a := range bookFirst {
		for _, b := range bookSecond {
			titles = append(titles, a+" "+b)
		}
	}
	rng.New(seed, "families/books").Shuffle(len(titles), func(i, j int) { titles[i], titles[j] = titles[j], titles[i] })
	titles = titles[:bookCount]
	slices.Sort(titles)
	for _, title := range titles {
		r := rng.New(seed, "families/book", title)
		author := authorFirst[r.IntN(len(authorFirst))] + " " + authorLast[r.IntN(len(authorLast))]
		t.Books = append(t.Books, Book{title, author, 1850 + r.IntN(170)})
	}
	w, err := index(t)
	if err != nil {
		panic(err) // the lists above are constants, and a test draws them
	}
	return w
}

// index makes the maps of a world and checks that its tables can be used.
func index(t tables) (*World, error) {
	w := &World{
		t: t, cities: map[string]City{}, stocks: map[string]Stock{}, currencies: map[string]Currency{},
		distances: map[[2]string]int{}, elements: map[string]Element{}, books: map[string]Book{},
	}
	for i, c := range t.Cities {
		if c.Offset < -12 || c.Offset > 14 || c.Lat < -90 || c.Lat > 90 || c.Lon < -180 || c.Lon > 180 {
			return nil, fmt.Errorf("cities[%d]: %q lies at no place of the earth", i, c.Name)
		}
		if err := put(w.cities, "cities", i, c.Name, c); err != nil {
			return nil, err
		}
	}
	for i, s := range t.Stocks {
		if _, ok := rational(s.Price); !ok {
			return nil, fmt.Errorf("stocks[%d].price: %q is not a decimal number", i, s.Price)
		}
		if err := put(w.stocks, "stocks", i, s.Ticker, s); err != nil {
			return nil, err
		}
	}
	for i, c := range t.Currencies {
		if r, ok := rational(c.Rate); !ok || r.Sign() <= 0 {
			return nil, fmt.Errorf("currencies[%d].rate: %q is not a decimal number above 0", i, c.Rate)
		}
		if err := put(w.currencies, "currencies", i, c.Code, c); err != nil {
			return nil, err
		}
	}
	for i, d := range t.Distances {
		for _, name := range []string{d.From, d.To} {
			if c, ok := w.cities[key(name)]; !ok || c.Name != name {
				return nil, fmt.Errorf("distances[%d]: %q is not among the cities", i, name)
			}
		}
		pair := [2]string{d.From, d.To}
		if _, twice := w.distances[pair]; twice || d.From >= d.To {
			return nil, fmt.Errorf("distances[%d]: %s to %s stands twice or is not in the order of names", i, d.From, d.To)
		}
		w.distances[pair] = d.Km
	}
	for i, e := range t.Elements {
		if err := put(w.elements, "elements", i, e.Name, e); err != nil {
			return nil, err
		}
	}
	for i, b := range t.Books {
		if err := put(w.books, "books", i, b.Title, b); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func put[T any](m map[string]T, table string, i int, name string, row T) error {
	k := key(name)
	if k == "" {
		return fmt.Errorf("%s[%d]: has no name", table, i)
	}
	if _, twice := m[k]; twice {
		return fmt.Errorf("%s[%d]: %q stands twice", table, i, name)
	}
	m[k] = row
	return nil
}

// MarshalJSON writes all tables, in a fixed order.
func (w *World) MarshalJSON() ([]byte, error) { return json.Marshal(w.t) }

// UnmarshalJSON reads the tables and checks them. An error names the table and the row.
func (w *World) UnmarshalJSON(b []byte) error {
	var t tables
	if err := json.Unmarshal(b, &t); err != nil {
		return fmt.Errorf("world: %w", err)
	}
	read, err := index(t)
	if err != nil {
		return fmt.Errorf("world: %w", err)
	}
	*w = *read
	return nil
}

// Seed is the seed that the world was drawn from.
func (w *World) Seed() uint64 { return w.t.Seed }

// Cities lists the names of the cities.
func (w *World) Cities() []string { return names(w.t.Cities, func(c City) string { return c.Name }) }

// Tickers lists the stocks.
func (w *World) Tickers() []string {
	return names(w.t.Stocks, func(s Stock) string { return s.Ticker })
}

// Currencies lists the codes of the currencies.
func (w *World) Currencies() []string {
	return names(w.t.Currencies, func(c Currency) string { return c.Code })
}

// Elements lists the names of the elements.
func (w *World) Elements() []string {
	return names(w.t.Elements, func(e Element) string { return e.Name })
}

// Books lists the titles of the books.
func (w *World) Books() []string { return names(w.t.Books, func(b Book) string { return b.Title }) }

// Pairs lists the pairs of cities in the table that distance_between reads, each in the order of names.
func (w *World) Pairs() [][2]string {
	out := make([][2]string, len(w.t.Distances))
	for i, d := range w.t.Distances {
		out[i] = [2]string{d.From, d.To}
	}
	return out
}

// Hubs lists the cities that the table of distances is about, sorted by name. It holds nearly all pairs of them and no other pair.
func (w *World) Hubs() []string {
	seen := map[string]bool{}
	for _, d := range w.t.Distances {
		seen[d.From], seen[d.To] = true, true
	}
	return slices.Sorted(maps.Keys(seen))
}

// InTable reports whether distance_between knows the pair, in either order.
func (w *World) InTable(from, to string) bool {
	a, b := ordered(from, to)
	_, ok := w.distances[[2]string{a, b}]
	return ok
}

// City gives the row of a city. Case and spaces do not count, here and in the other lookups.
func (w *World) City(name string) (City, bool) { c, ok := w.cities[key(name)]; return c, ok }

// Stock gives the row of a ticker.
func (w *World) Stock(ticker string) (Stock, bool) { s, ok := w.stocks[key(ticker)]; return s, ok }

// Element gives the row of an element.
func (w *World) Element(name string) (Element, bool) { e, ok := w.elements[key(name)]; return e, ok }

// Book gives the row of a title.
func (w *World) Book(title string) (Book, bool) { b, ok := w.books[key(title)]; return b, ok }

// key is the form in which names are compared: lower case, single spaces.
func key(name string) string { return strings.ToLower(strings.Join(strings.Fields(name), " ")) }

func names[T any](list []T, name func(T) string) []string {
	out := make([]string, len(list))
	for i, x := range list {
		out[i] = name(x)
	}
	return out
}

func ordered(a, b string) (string, string) {
	if b < a {
		return b, a
	}
	return a, b
}

// kilometers is the length of the great circle between two cities on a sphere of 6371 km, by the haversine formula, in whole
// kilometers.
func kilometers(a, b City) int {
	rad := func(deg int) float64 { return float64(deg) * math.Pi / 180 }
	lat, lon := math.Sin(rad(b.Lat-a.Lat)/2), math.Sin(rad(b.Lon-a.Lon)/2)
	h := lat*lat + math.Cos(rad(a.Lat))*math.Cos(rad(b.Lat))*lon*lon
	return int(math.Round(2 * 6371 * math.Asin(math.Sqrt(min(1, h)))))
}

// tenths writes n/10 with at most one decimal.
func tenths(n int) string { return strings.TrimSuffix(fmt.Sprintf("%d.%d", n/10, n%10), ".0") }

func rows(text, sep string) [][]string {
	var out [][]string
	for line := range strings.Lines(strings.TrimSpace(text)) {
		out = append(out, strings.Split(strings.TrimSpace(line), sep))
	}
	return out
}

func whole(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err) // of a constant in this package
	}
	return n
}
