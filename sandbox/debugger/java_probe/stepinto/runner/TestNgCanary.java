package stepinto.runner;

import org.testng.Assert;
import org.testng.annotations.Test;

/** A template of {@link Canaries}. */
public class TestNgCanary {
    @Test
    public void mustFail() {
        Assert.assertTrue(false);
    }
}
