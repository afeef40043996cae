package toolbox

import "strings"

// cityRows are the cities, one a line: name, country, hours from UTC (standard time), latitude and longitude in whole degrees.
// Names are single words, so that a word-level tokenizer spells each with one token.
const cityRows = `
Oslo,Norway,1,60,11
Rome,Italy,1,42,12
Paris,France,1,49,2
London,England,0,51,0
Madrid,Spain,1,40,-4
Lisbon,Portugal,0,39,-9
Berlin,Germany,1,53,13
Munich,Germany,1,48,12
Hamburg,Germany,1,54,10
Vienna,Austria,1,48,16
Prague,Czechia,1,50,14
Warsaw,Poland,1,52,21
Krakow,Poland,1,50,20
Athens,Greece,2,38,24
Dublin,Ireland,0,53,-6
Bergen,Norway,1,60,5
Stockholm,Sweden,1,59,18
Helsinki,Finland,2,60,25
Tampere,Finland,2,61,24
Riga,Latvia,2,57,24
Vilnius,Lithuania,2,55,25
Tallinn,Estonia,2,59,25
Zurich,Switzerland,1,47,9
Geneva,Switzerland,1,46,6
Milan,Italy,1,45,9
Naples,Italy,1,41,14
Lyon,France,1,46,5
Porto,Portugal,0,41,-8
Sevilla,Spain,1,37,-6
Bucharest,Romania,2,44,26
Sofia,Bulgaria,2,43,23
Belgrade,Serbia,1,45,20
Zagreb,Croatia,1,46,16
Ankara,Turkey,3,40,33
Izmir,Turkey,3,38,27
Cairo,Egypt,2,30,31
Tunis,Tunisia,1,37,10
Rabat,Morocco,1,34,-7
Dakar,Senegal,0,15,-17
Accra,Ghana,0,6,0
Lagos,Nigeria,1,6,3
Nairobi,Kenya,3,-1,37
Lusaka,Zambia,2,-15,28
Durban,South Africa,2,-30,31
Doha,Qatar,3,25,52
Karachi,Pakistan,5,25,67
Bangkok,Thailand,7,14,101
Hanoi,Vietnam,7,21,106
Manila,Philippines,8,15,121
Seoul,South Korea,9,38,127
Tokyo,Japan,9,36,140
Osaka,Japan,9,35,136
Sydney,Australia,10,-34,151
Perth,Australia,8,-32,116
Toronto,Canada,-5,44,-79
Boston,United States,-5,42,-71
Chicago,United States,-6,42,-88
Denver,United States,-7,40,-105
Lima,Peru,-5,-12,-77
Bogota,Colombia,-5,5,-74
`

// tickerCodes are the stocks.
var tickerCodes = strings.Fields(`ABX ACD AMR BEL BRN CAL CDR COR DAX DRM ELM EVO FAR FIN GEM GLD HUB ICE JET KEY
	LUX MAR NOV OAK PAX QEL RIV SUN TEK ULM VEX WAV XEN YAR ZED ALTO BORA CIRA DELT ECHO`)

// currencyRows are the currencies with units per usd as they stand about; a world draws its own within a fifth of them.
const currencyRows = `usd 1
eur 0.9
gbp 0.8
chf 0.9
jpy 150
sek 10.5
nok 10.8
dkk 6.9
pln 4
czk 23
inr 83
aud 1.5`

// elementRows are chemical elements: name, symbol, atomic number. They are the same in every world.
const elementRows = `hydrogen H 1
helium He 2
lithium Li 3
carbon C 6
nitrogen N 7
oxygen O 8
fluorine F 9
neon Ne 10
sodium Na 11
magnesium Mg 12
silicon Si 14
sulfur S 16
chlorine Cl 17
argon Ar 18
potassium K 19
calcium Ca 20
titanium Ti 22
chromium Cr 24
iron Fe 26
cobalt Co 27
nickel Ni 28
copper Cu 29
zinc Zn 30
bromine Br 35
krypton Kr 36
silver Ag 47
tin Sn 50
iodine I 53
xenon Xe 54
tungsten W 74
platinum Pt 78
gold Au 79
mercury Hg 80
lead Pb 82
radon Rn 86
uranium U 92`

// Books are named by one word of each list, authors by a first and a last name. All are drawn anew in each world, so that none can
// be known beforehand.
var (
	bookFirst   = strings.Fields(`silent golden winter hidden broken crystal distant little paper salt`)
	bookSecond  = strings.Fields(`harbor garden letters mountain river window orchard island`)
	authorFirst = strings.Fields(`Ada Bruno Clara David Elena Felix Greta Hugo Irene Jonas Karla Lucas`)
	authorLast  = strings.Fields(`Abbott Bishop Carter Dawson Ellis Foster Graham Harper Ingram Keller Lawson Mercer`)
)

// bookCount is how many books a world has.
const bookCount = 40

// The table of distances has pairCount of the 105 pairs of hubCount cities.
const (
	hubCount  = 15
	pairCount = 100
)
