using System;
using System.Net.Http;
using System.Threading.Tasks;

class Example
{
    static void Main(string[] args) => Run(new HttpClient { BaseAddress = new Uri(args[0]) }).GetAwaiter().GetResult();

    static async Task Run(HttpClient c)
    {
        var answer = await c.PostAsync("/write?db=demo", new StringContent("weather,city=oslo temperature=-3.5"));
        if (!answer.IsSuccessStatusCode) throw new Exception(await answer.Content.ReadAsStringAsync());
        c.DefaultRequestHeaders.Add("Accept", "text/csv");
        var q = Uri.EscapeDataString("SELECT last(temperature) FROM weather GROUP BY city");
        Console.Write(await c.GetStringAsync("/query?db=demo&q=" + q)); // name,tags,time,last
    }
}
