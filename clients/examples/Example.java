import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;

public class Example {
    public static void main(String[] args) throws Exception {
        var c = HttpClient.newHttpClient();
        var write = HttpRequest.newBuilder(URI.create(args[0] + "/write?db=demo"))
            .POST(HttpRequest.BodyPublishers.ofString("weather,city=oslo temperature=-3.5")).build();
        var answer = c.send(write, BodyHandlers.ofString());
        if (answer.statusCode() != 204) throw new Exception(answer.body());
        var q = URLEncoder.encode("SELECT last(temperature) FROM weather GROUP BY city", StandardCharsets.UTF_8);
        var read = HttpRequest.newBuilder(URI.create(args[0] + "/query?db=demo&q=" + q)).header("Accept", "text/csv").build();
        System.out.print(c.send(read, BodyHandlers.ofString()).body()); // name,tags,time,last
    }
}
