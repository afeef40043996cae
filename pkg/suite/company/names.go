package company

import (
	"fmt"
	"math/rand/v2"
)

// Names are two words drawn from fixed pools, so that the words of a name in one split stand in names of others (in train's, or the
// name is not asked about) while the pair stands in one split only. Worlds of other seeds pair the same words differently. A few words are
// not ASCII, none needs escaping in SQL or JSON.
var (
	stems = []string{
		"Norvik", "Norden", "Normar", "Velvik", "Velden", "Velmar", "Karvik", "Karden", "Karmar", "Talvik", "Talden", "Talmar",
		"Brenvik", "Brenden", "Brenmar", "Solvik", "Solden", "Solmar", "Haldan", "Halcor", "Halton", "Merdan", "Mercor", "Merton",
		"Ostdan", "Ostcor", "Oston", "Rivdan", "Rivcor", "Rivton", "Quindan", "Quincor", "Quinton", "Lundan", "Luncor", "Lunton",
		"Žalvik", "Ørsten", "Äskman", "Čapek", "Étoile", "Šubert", "Delvane", "Corvane", "Pelvane", "Morvane", "Galvane", "Tervane",
	}
	kindWords = map[Kind][]string{
		Product: {"Pump", "Valve", "Motor", "Sensor", "Filter", "Drill", "Lamp", "Press", "Boiler", "Crane", "Mixer", "Router",
			"Scale", "Turbine", "Welder", "Cooler", "Fan", "Hoist"},
		Supplier: {"Metals", "Plastics", "Optics", "Castings", "Chemicals", "Cables", "Bearings", "Ceramics", "Alloys", "Fibres"},
		Customer: {"Foods", "Hotels", "Clinics", "Airlines", "Breweries", "Dairies", "Mines", "Ports", "Schools", "Theatres", "Mills", "Farms"},
		Site:     {"Harbor", "Depot", "Yard", "Works", "Terminal", "Plant", "Warehouse", "Campus"},
		Region:   {"Coast", "Valley", "Province", "Highlands", "Islands", "Plains"},
	}
	givenNames = []string{
		"Mira", "Jonas", "Elif", "Tomas", "Ingrid", "Pavel", "Aisha", "Lukas", "Noor", "Henrik", "Sofia", "Ravi", "Chloé", "Mateo", "Freya",
		"Anton", "Leila", "Oskar", "Priya", "Emil", "Zoë", "Karl", "Yuki", "Bruno", "Hanna", "Samir", "Vera", "Hugo", "Nadia", "Felix",
	}
	surnames = []string{
		"Tolvane", "Brandt", "Kaya", "Novak", "Lindgren", "Moreau", "Okafor", "Fischer", "Haddad", "Larsen", "Rossi", "Mehta", "Dubois",
		"Vargas", "Holm", "Petrov", "Rahimi", "Ekström", "Iyer", "Winter", "Bakker", "Sato", "Conti", "Jansen", "Saleh", "Kuznet",
		"Berger", "Marek", "Weiss", "Núñez",
	}
	projectFirst = []string{
		"Amber", "Silver", "Crimson", "Cobalt", "Ivory", "Violet", "Golden", "Copper", "Emerald", "Scarlet", "Indigo", "Marble",
		"Granite", "Velvet", "Crystal", "Shadow", "Saffron", "Onyx", "Pearl", "Russet",
	}
	projectSecond = []string{
		"Heron", "Falcon", "Otter", "Badger", "Lynx", "Kestrel", "Beaver", "Panther", "Raven", "Walrus", "Bison", "Gecko", "Osprey", "Marten",
		"Ibex", "Puffin", "Stoat", "Condor",
	}
	cities = []string{
		"Malmö", "Porto", "Lyon", "Gdansk", "Ghent", "Turin", "Bergen", "Leeds", "Graz", "Zürich", "Kaunas", "Split", "Cork", "Bilbao",
		"Tampere", "Utrecht", "Plovdiv", "Brno", "Aarhus", "Košice",
	}
	categories = []string{"hydraulics", "lighting", "cutting", "heating", "lifting", "networking", "weighing", "welding"}
	segments   = []string{"retail", "public", "industry", "wholesale", "export"}
	deptNames  = []string{"Finance", "Logistics", "Research", "Quality", "Sales", "Legal", "Security", "Training", "Purchasing", "Design"}
	colours    = []string{"teal", "maroon", "olive", "navy", "coral", "purple", "beige", "turquoise"}
	gates      = []string{"fountain", "chapel", "orchard", "bridge", "stables", "lighthouse", "playground", "bandstand"}
	causes     = []string{"corrosion", "overload", "misalignment", "contamination", "leakage", "vibration", "overheating", "fatigue"}
	unis       = []string{"Uppsala", "Delft", "Padua", "Leuven", "Tartu", "Coimbra", "Bologna", "Heidelberg"}
	harbours   = []string{"Trieste", "Rostock", "Varna", "Cadiz", "Klaipeda", "Hull", "Rijeka", "Bremen"}
)

// namer deals out unique two-word names: every pair of the pools once, in random order.
type namer struct {
	rand *rand.Rand
	left map[string][]string
	skip map[string]bool // names that another world asks about in its tests
}

func newNamer(r *rand.Rand, skip map[string]bool) *namer {
	return &namer{rand: r, left: map[string][]string{}, skip: skip}
}

func (n *namer) next(pool string, first, second []string) (string, error) {
	list, ok := n.left[pool]
	if !ok {
		for _, a := range first {
			for _, b := range second {
				list = append(list, a+" "+b)
			}
		}
		n.rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	for len(list) > 0 {
		name := list[0]
		list = list[1:]
		n.left[pool] = list
		if !n.skip[name] {
			return name, nil
		}
	}
	return "", fmt.Errorf("names of %s: the pool of %d is used up; ask for fewer", pool, len(first)*len(second))
}

// entity names a thing of a kind.
func (n *namer) entity(k Kind) (string, error) {
	switch k {
	case Employee:
		return n.person()
	case Project:
		return n.next(string(k), projectFirst, projectSecond)
	default:
		return n.next(string(k), stems, kindWords[k])
	}
}

// person names somebody who bears nobody else's name.
func (n *namer) person() (string, error) { return n.next("person", givenNames, surnames) }
